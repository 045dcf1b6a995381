"""Copies of several servers: what ends one ends no other."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import asyncpg
import pytest

from cli.commands import backup
from errors import Unavailable
from runtime.postgres import LoginRefused


@pytest.mark.parametrize("error", [asyncpg.ConnectionDoesNotExistError("gone"), OSError(39, "not empty")])
def test_whatever_ends_a_copy_is_told_of_it_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    async def fails(*_: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(backup, "take_of", fails)
    found = backup._taken_or_why(None, "set-1", tmp_path)
    assert (found["server"], found["code"]) == ("set-1", "internal_error")
    assert str(error) in found["detail"]


@pytest.mark.parametrize(
    ("error", "state"),
    [(LoginRefused("wrong password"), "login_refused"), (Unavailable("database_unavailable", "gone"), "unknown")],
)
def test_a_refused_login_is_no_server_that_is_away(error: Exception, state: str) -> None:
    """Nobody knows whether the log is received, and waiting does not help: the list needs somebody."""

    async def status() -> NoReturn:
        raise error

    keeper: Any = SimpleNamespace(status=status)
    assert backup._standing(keeper) == (state, None)
    one = {"bases": [{"missing": None}], "log": state}
    assert backup._is_behind(one) is (state == "login_refused")
