"""A SET more, and keys made anew, in an installation on many hosts."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.table import main
from installation import inventory
from installation.keys import KEYS
from installation.renewal import RENEWABLE
from schema import roles

INIT = (
    "--postgres", "wallet=10.0.0.1:5432,10.0.0.2:5432", "--postgres", "set-1=10.0.0.1:5433,10.0.0.2:5433",
    "--wallet", "wallet.hongbao:8300", "--memcached", "set-1=10.0.0.1:11211", "--archive", "/srv/archive", "--tls",
    "--setnode", "set-1-a=set-1@10.0.0.1:8200", "--gateway", "gateway-1=10.0.0.1:8080",
)  # fmt: skip
ADD = (
    "installation", "add", "set-2", "--postgres", "10.0.0.1:5434,10.0.0.2:5434", "--memcached", "10.0.0.2:11211",
    "--setnode", "set-2-a=10.0.0.1:8201", "--setnode", "set-2-b=10.0.0.2:8201",
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "installation.toml"
    ran = CliRunner().invoke(main, ["installation", "init", str(made), *INIT])
    assert ran.exit_code == 0, ran.output
    return made


def called(file: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--installation", str(file)])


def secrets_of(file: Path) -> Any:
    return json.loads(file.with_name("secrets.json").read_text())


def test_a_set_more(file: Path) -> None:
    """It has a cluster with all roles and passwords, servers and a memcached; what was there stays."""
    before, keys = inventory.load(file), secrets_of(file)
    ran = called(file, *ADD)
    assert ran.exit_code == 0, ran.output
    after, known = inventory.load(file), secrets_of(file)
    assert set(after.clusters) == {"wallet", "set-1", "set-2"}
    assert set(after.clusters["set-2"].dsns) == set(roles.roles_of("set")) == set(known["postgres"]["set-2"])
    assert {name: (one.set, one.url, one.memcached) for name, one in after.setnodes.items()} == {
        "set-1-a": ("set-1", "https://10.0.0.1:8200", "10.0.0.1:11211"),
        "set-2-a": ("set-2", "https://10.0.0.1:8201", "10.0.0.2:11211"),
        "set-2-b": ("set-2", "https://10.0.0.2:8201", "10.0.0.2:11211"),
    }
    assert after.clusters["set-1"] == before.clusters["set-1"]
    assert known["keys"] == keys["keys"]
    assert known["postgres"]["set-1"] == keys["postgres"]["set-1"]
    assert "PGPASSWORD=" in called(file, "keys", "postgres", "--set", "set-2").output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*ADD[:2], "set-1", *ADD[3:]), "there is a set-1 already"),
        ((*ADD, "--setnode", "set-1-a=10.0.0.9:8200"), "there is a setnode set-1-a already, of set-1"),
        ((*ADD[:5], *ADD[7:]), "say where the memcached of set-2 is"),
        ((*ADD, "--setnode", "set-2-c=10.0.0.1:8200"), "each process has an address of its own"),
    ],
)
def test_a_set_that_does_not_fit_changes_nothing(file: Path, words: tuple[str, ...], says: str) -> None:
    """Its name or a server's is taken, an address is another's, its memcached is not said."""
    before, keys = file.read_text(), secrets_of(file)
    ran = called(file, *words)
    assert (ran.exit_code, says in ran.output) == (1, True), ran.output
    assert (file.read_text(), secrets_of(file)) == (before, keys)


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [
        ("setnode", "set-1-a=set-1@10.0.0.1:8200", "set-1-a=set-1@10.0.0.9:8200"),
        ("postgres", "set-1=10.0.0.1:5433", "set-1=10.0.0.9:5433"),
        ("gateway", "gateway-1=10.0.0.1:8080", "gateway-1=10.0.0.9:8080"),
        ("memcached", "10.0.0.1:11211", "10.0.0.9:11211"),
    ],
)
def test_a_name_is_given_once(tmp_path: Path, option: str, one: str, other: str) -> None:
    """Of two values of a name none is dropped without a word: `init` says both, and writes nothing."""
    words = [*INIT, f"--{option}", one, f"--{option}", other]
    ran = CliRunner().invoke(main, ["installation", "init", str(tmp_path / "installation.toml"), *words])
    assert (ran.exit_code, "give each name once" in ran.output, list(tmp_path.iterdir())) == (1, True, []), ran.output


@pytest.mark.parametrize("command", [("init", "/dev/null/x.toml", *INIT), ("host", "/dev/null/x", "gateway")])
def test_a_folder_that_cannot_be_is_a_sentence(file: Path, command: tuple[str, ...]) -> None:
    """No traceback: the file or folder that cannot be written is named."""
    at = ["--installation", str(file)] if command[0] == "host" else []
    ran = CliRunner().invoke(main, ["installation", *command, *at])
    assert (ran.exit_code, ran.output.startswith("error: "), "/dev/null" in ran.output) == (1, True, True), ran.output


@pytest.mark.parametrize("name", [*RENEWABLE, "postgres/set-1"])
def test_a_key_made_anew(file: Path, name: str) -> None:
    """It alone is another one, the superuser's password is not touched, and the file of before stays beside it."""
    before = secrets_of(file)
    told = json.loads(called(file, "installation", "renew", name, "--json").output)
    after = secrets_of(file)
    kept = Path(told["before"])
    assert json.loads(kept.read_text()) == before
    assert kept.stat().st_mode & 0o777 == 0o600
    changed = {key for key in before["keys"] if before["keys"][key] != after["keys"][key]}
    assert changed == {name} & set(before["keys"])
    of_set = {role for role, word in before["postgres"]["set-1"].items() if after["postgres"]["set-1"][role] != word}
    assert of_set == (set(roles.roles_of("set")) - {"postgres"} if "/" in name else set())
    assert before["postgres"]["wallet"] == after["postgres"]["wallet"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *((name, "protects what is stored") for name in KEYS if name not in RENEWABLE),
        ("LINK", "there is no key 'LINK'"),
        ("postgres/set-9", "has no passwords of 'set-9'; it has those of wallet, set-1"),
    ],
)
def test_what_cannot_be_made_anew_stays(file: Path, name: str, says: str) -> None:
    """Keys of what is stored, names of nothing: a sentence, and no file is written."""
    before, files = secrets_of(file), sorted(file.parent.iterdir())
    ran = called(file, "installation", "renew", name)
    assert (ran.exit_code, says in ran.output) == (1, True), ran.output
    assert (secrets_of(file), sorted(file.parent.iterdir())) == (before, files)


def test_a_key_that_is_elsewhere_is_replaced_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file's own would have no effect."""
    monkeypatch.setenv("HONGBAO_TOKEN_KEY", "k" * 64)
    ran = called(file, "installation", "renew", "TOKEN_KEY")
    assert (ran.exit_code, "is not in" in ran.output) == (1, True)
