"""Folders for hosts: what would destroy or mix up an installation's secrets is refused, and nothing is written."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.table import main
from tests.unit.installation.test_later_changes import ADD, INIT

PROCESSES = ("gateway", "setnode:set-1-a", "wallet", "events", "rotation", "operator")


def made_in(folder: Path) -> Path:
    ran = CliRunner().invoke(main, ["installation", "init", str(folder / "installation.toml"), *INIT])
    assert ran.exit_code == 0, ran.output
    return folder / "installation.toml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return made_in(tmp_path / "ours")


def host(file: Path, folder: Path, *processes: str) -> Result:
    return CliRunner().invoke(main, ["installation", "host", str(folder), *processes, "--installation", str(file)])


def content(folder: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def is_refused(ran: Result, says: str) -> bool:
    return ran.exit_code == 1 and says in " ".join(ran.output.split())


@pytest.mark.parametrize("process", ["gateway", "operator"])
@pytest.mark.parametrize("way", ["itself", "a link", "a link to the secrets", "a name of its own"])
def test_no_host_is_written_over_the_installation(file: Path, process: str, way: str) -> None:
    """Its own folder by whatever name: secrets.json has keys that are nowhere else and cannot be made anew."""
    folder = file.parent
    if way == "a link":
        (folder := file.parent.with_name("link")).symlink_to(file.parent)
    elif way == "a link to the secrets":
        (folder := file.parent.with_name("host")).mkdir()
        (folder / "secrets.json").symlink_to(file.with_name("secrets.json"))
    elif way == "a name of its own":
        file = file.rename(file.with_name("many.toml"))
    before = content(file.parent)
    ran = host(file, folder, process)
    assert is_refused(ran, "nothing is written to"), ran.output
    assert content(file.parent) == before


@pytest.mark.parametrize("way", ["another installation", "one of its hosts", "a whole copy", "a SET more"])
def test_no_host_is_written_over_secrets_that_are_elsewhere_nowhere(file: Path, tmp_path: Path, way: str) -> None:
    """Another installation's folder, that of a host of it, all secrets of ours, or passwords that ours lacks."""
    folder, process = tmp_path / "there", "operator"
    if way == "another installation":
        made_in(folder)
    elif way == "one of its hosts":
        host(made_in(tmp_path / "other"), folder, "gateway")
    else:
        host(file, folder, "operator")
        if way == "a whole copy":
            process = "gateway"
        else:
            CliRunner().invoke(main, [*ADD, "--installation", str(folder / "installation.toml")])
    before = content(folder)
    ran = host(file, folder, process)
    assert is_refused(ran, "nothing is written to"), ran.output
    assert content(folder) == before


@pytest.mark.parametrize("process", PROCESSES)
def test_a_host_is_written_again(file: Path, tmp_path: Path, process: str) -> None:
    """With keys, passwords and a SET that are new since: this is how a renewed key reaches it."""
    folder = tmp_path / "host"
    assert host(file, folder, process).exit_code == 0
    before = content(folder)
    for words in (["renew", "TOKEN_KEY"], ["renew", "LINK_SECRET"], ["renew", "postgres/set-1"], ADD[1:]):
        ran = CliRunner().invoke(main, ["installation", *words, "--installation", str(file)])
        assert ran.exit_code == 0, ran.output
    ran = host(file, folder, process)
    assert ran.exit_code == 0, ran.output
    assert content(folder) != before
    shutil.rmtree(folder)
    again = host(file, folder, process)
    assert again.exit_code == 0


@pytest.mark.parametrize("processes", [*((one,) for one in PROCESSES[:-1]), PROCESSES[:-1]])
def test_a_host_makes_no_keys(file: Path, tmp_path: Path, processes: tuple[str, ...]) -> None:
    """`add`, `renew` and `init` in its folder would make keys that no other process has: stored data would freeze."""
    folder = tmp_path / "host"
    assert host(file, folder, *processes).exit_code == 0
    before = content(folder)
    there = str(folder / "installation.toml")
    other = str(folder / "other.toml")
    for words in (
        [*ADD[1:], "--installation", there],
        ["renew", "TOKEN_KEY", "--installation", there],
        ["init", other, *INIT],
    ):
        ran = CliRunner().invoke(main, ["installation", *words])
        assert is_refused(ran, "secrets of one host's processes alone"), ran.output
    assert content(folder) == before


@pytest.mark.parametrize("key", ["PASSWORD_KEY", "LINK_SECRET"])
def test_a_set_is_added_where_the_keys_are(file: Path, key: str) -> None:
    """A file that lacks one makes none anew; one that the environment gives is there."""
    secrets = file.with_name("secrets.json")
    held = json.loads(secrets.read_text())
    word = held["keys"].pop(key)
    secrets.write_text(json.dumps(held))
    before = content(file.parent)
    words = [*ADD, "--installation", str(file)]
    ran = CliRunner().invoke(main, words)
    assert is_refused(ran, f"lacks {key}; bring back"), ran.output
    assert content(file.parent) == before
    ran = CliRunner().invoke(main, words, env={f"HONGBAO_{key}": word})
    assert ran.exit_code == 0, ran.output
    assert json.loads(secrets.read_text())["keys"] == held["keys"]


def test_an_operators_host_adds_a_set(file: Path, tmp_path: Path) -> None:
    """It has everything; passwords are new, and all keys are those of before."""
    folder = tmp_path / "operator"
    assert host(file, folder, "operator").exit_code == 0
    ran = CliRunner().invoke(main, [*ADD, "--installation", str(folder / "installation.toml")])
    assert ran.exit_code == 0, ran.output
    ours, theirs = (json.loads((one / "secrets.json").read_text()) for one in (file.parent, folder))
    assert ours["keys"] == theirs["keys"]
    assert set(theirs["postgres"]) == {"wallet", "set-1", "set-2"}
