"""Who gives a command, also where the account has no name: a container with any number for its user."""

import os
import pwd
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.table import main
from installation.finding import find
from runtime.login import login
from tests.unit.installation.test_later_changes import INIT


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nobody")
def test_an_account_without_a_name() -> None:
    """It has its number for one."""
    assert login() == f"account {os.getuid()}"


@pytest.mark.usefixtures("nobody")
def test_commands_of_an_account_without_a_name(tmp_path: Path) -> None:
    """Each that reads or changes topology and switches makes a publisher, whose rows say who did it."""
    file = tmp_path / "installation.toml"
    assert CliRunner().invoke(main, ["installation", "init", str(file), *INIT]).exit_code == 0
    assert find(file).publisher()
