"""The installation file: what is written is read back, what is wrong is named, secrets may be elsewhere."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from cli.table import main
from errors import Refused
from installation import data_folder, inventory
from installation.finding import find
from installation.inventory import Cluster, Inventory, Setnode
from installation.processes import memcached_of
from installation.reference import Reference
from runtime import settings

WHOLE = Inventory(
    wallet_url="http://10.0.0.1:8300", memcached="10.0.0.1:11211", topology="topology.json", archive="/archive",
    secrets="secrets.json", backups="/backups", gateways={"gateway-1": "http://10.0.0.1:8080"},
    setnodes={
        "set-1-a": Setnode(set="set-1", url="http://10.0.1.1:8200", memcached="10.0.1.1:11211"),
        "set-1-b": Setnode(set="set-1", url="http://10.0.1.2:8200"),
    },
    clusters={
        "set-1": Cluster(
            dsns={
                "hongbao_setnode": "postgresql://hongbao_setnode@db-1:5432,db-2:5432/hongbao",
                "hongbao_audit": Reference(env="AUDIT_DSN"),
            },
            system_identifier="7123",
        ),
        "wallet": Cluster(dsns={"hongbao_wallet": Reference(file="/run/secrets/wallet")}),
    },
    keys={"TOKEN_KEY": Reference(env="OUR_TOKEN_KEY")},
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    inventory.save(WHOLE, tmp_path / "installation.toml")
    return tmp_path / "installation.toml"


def test_what_is_written_is_read_back(path: Path) -> None:
    """Paths below its folder are relative in the file: they hold where the folder is brought to."""
    expected = msgspec.structs.replace(
        WHOLE, topology=str(path.with_name("topology.json")), secrets=str(path.with_name("secrets.json"))
    )
    assert inventory.load(path) == expected
    assert path.stat().st_mode & 0o777 == 0o600
    inventory.save(expected, path)
    moved = path.parent / "elsewhere" / "installation.toml"
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    assert inventory.load(moved).topology == str(moved.with_name("topology.json"))
    assert inventory.load(moved).archive == "/archive"


WRONG = {
    "an unknown field": ("wallet_url", "walet_url", "walet_url"),
    "two servers of one name": ("[setnodes.set-1-b]", "[setnodes.set-1-a]", "set-1-a"),
    "two servers at one address": ("10.0.1.2:8200", "10.0.1.1:8200", "an address of its own"),
    "a server of an unknown SET": ('set = "set-1"', 'set = "set-7"', "no SET of that name"),
    "a server with the wallet's name": ("[setnodes.set-1-b]", "[setnodes.wallet]", "no setnode may have: 'wallet'"),
    "no URL": ("http://10.0.0.1:8300", "10.0.0.1:8300", "wallet_url '10.0.0.1:8300' must be http"),
    "no address of memcached": ('memcached = "10.0.1.1:11211"', 'memcached = "10.0.1.1"', "setnodes.set-1-a.memcached"),
    "no DSN": ("postgresql://hongbao_setnode@", "mysql://", "clusters.set-1.dsns.hongbao_setnode is no DSN"),
    "a password not encoded": ("hongbao_setnode@db-1", "hongbao_setnode:geheim#wort@db-1", "hongbao_setnode is no DSN"),
    "a secret in two places": ('env = "AUDIT_DSN"', 'env = "AUDIT_DSN"\nfile = "/x"', "either env or file"),
    "an unknown key": ("[keys.TOKEN_KEY]", "[keys.TOKEN_KYE]", "no such key; there are TOKEN_KEY"),
    "a form of later": ("version = 1", "version = 2", "run the release that wrote it"),
    "a number for a text": ('system_identifier = "7123"', "system_identifier = 7123", "system_identifier"),
    "no TOML": ("[keys.TOKEN_KEY]", "[keys.TOKEN_KEY", "cannot read"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(path: Path, case: str) -> None:
    """Each with the file and the field, and nothing is taken from the file."""
    old, new, said = WRONG[case]
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(Refused) as told:
        inventory.load(path)
    assert told.value.code in ("inventory_invalid", "inventory_unreadable")
    assert said in told.value.detail
    assert str(path) in told.value.detail
    assert "geheim" not in told.value.detail


def test_two_servers_are_not_one_database(path: Path) -> None:
    """A copy of an entry under another name is no second database."""
    twice = {**WHOLE.clusters, "set-2": WHOLE.clusters["set-1"]}
    with pytest.raises(Refused, match=r"set-2.dsns.hongbao_setnode leads to the database of set-1: each has one"):
        inventory.save(msgspec.structs.replace(WHOLE, clusters=twice), path)
    assert inventory.load(path).clusters == WHOLE.clusters


def test_secrets_may_be_elsewhere(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment or in a file; one that is not there is named with its place."""
    access = find(path)
    with pytest.raises(Refused, match="the DSN of set-1 for the role hongbao_audit is to be in the environment as AUD"):
        access.dsn("set-1", "hongbao_audit")
    with pytest.raises(Refused, match="is to be in /run/secrets/wallet, which cannot be read"):
        access.dsn("wallet", "hongbao_wallet")
    monkeypatch.setenv("AUDIT_DSN", "postgresql://hongbao_audit:word@db-1/hongbao")
    assert access.dsn("set-1", "hongbao_audit") == "postgresql://hongbao_audit:word@db-1/hongbao"
    monkeypatch.setenv("AUDIT_DSN", "postgresql://hongbao_audit:geheim#wort@db-1/hongbao")
    with pytest.raises(Refused, match=r"role hongbao_audit in \$AUDIT_DSN is no DSN") as told:
        access.dsn("set-1", "hongbao_audit")
    assert "geheim" not in told.value.detail
    with pytest.raises(Refused, match="TOKEN_KEY is to be in the environment as OUR_TOKEN_KEY"):
        access.key("TOKEN_KEY")
    monkeypatch.setenv("OUR_TOKEN_KEY", "k" * 32)
    assert access.key("TOKEN_KEY") == "k" * 32
    file = tmp_path / "key"
    file.write_text("f" * 32 + "\n")
    monkeypatch.setenv("HONGBAO_TOKEN_KEY_FILE", str(file))
    assert access.key("TOKEN_KEY") == "f" * 32


def test_a_setting_may_be_a_file(tmp_path: Path) -> None:
    """As container engines give secrets: HONGBAO_X_FILE names the file of HONGBAO_X."""

    class Settings(msgspec.Struct):
        postgres_dsn: str

    (tmp_path / "dsn").write_text("postgresql://here\n")
    name = "HONGBAO_POSTGRES_DSN_FILE"
    assert settings.load(Settings, {name: str(tmp_path / "dsn")}).postgres_dsn == "postgresql://here"
    with pytest.raises(Refused, match=f"{name} names '/none', which cannot be read"):
        settings.load(Settings, {name: "/none"})


@pytest.mark.parametrize("name", ["postgres_dsn", "set_dsns"])
def test_a_setting_shows_no_password(name: str) -> None:
    """One that is not percent-encoded is refused by the name of its variable, before anything connects with it."""
    kind = msgspec.defstruct("Settings", [(name, str)])
    label = "set-1=" if name == "set_dsns" else ""
    with pytest.raises(Refused, match=f"HONGBAO_{name.upper()} is no DSN") as told:
        settings.load(kind, {f"HONGBAO_{name.upper()}": f"{label}postgresql://u:geheim#wort@127.0.0.1/db"})
    assert "geheim" not in told.value.detail


def test_an_earlier_form_is_read_until_the_file_is_written(tmp_path: Path) -> None:
    """A folder of an earlier release, brought to another place, is known; the first save replaces the file."""
    old = {
        "clusters": {"set-1": {"dsns": {}, "system_identifier": "1"}}, "gateway_urls": ["http://127.0.0.1:1"],
        "wallet_url": "http://127.0.0.1:2", "memcached": "/socket", "topology": "/away/topology.json",
        "archive": "/archive", "secrets": "/away/secrets.json", "sandbox": False,
    }  # fmt: skip
    (tmp_path / "installation.json").write_text(json.dumps(old))
    (tmp_path / "secrets.json").write_text("{}")
    path = tmp_path / "installation.toml"
    found = inventory.load(path)
    assert (found.gateway_urls, found.secrets) == (["http://127.0.0.1:1"], str(tmp_path / "secrets.json"))
    inventory.save(found, path)
    assert not (tmp_path / "installation.json").exists()
    assert inventory.load(path) == found
    (tmp_path / "installation.json").write_text("{}")
    path.unlink()
    with pytest.raises(Refused, match=r"installation\.json") as told:
        inventory.load(path)
    assert told.value.code == "inventory_unreadable"


def test_each_server_has_the_memcached_of_its_host(path: Path) -> None:
    """Or that of the installation, if the file names none for it."""
    found = inventory.load(path)
    assert [memcached_of(found, name) for name in WHOLE.setnodes] == ["10.0.1.1:11211", "10.0.0.1:11211"]


def test_a_command_takes_the_file_or_the_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--installation and HONGBAO_INSTALLATION name the file, --data and HONGBAO_DATA its folder; not both at once."""
    run = CliRunner()
    (path.parent / "topology.json").write_text(
        '{"version": 1, "slots": 100, "wallet_url": "http://10.0.0.1:8300", "sets": [{"name": "set-1", "servers": '
        '[{"name": "set-1-a", "url": "http://10.0.1.1:8200"}]}]}'
    )
    for words in (["--installation", str(path)], ["--data", str(path.parent)]):
        shown = run.invoke(main, ["installation", "show", "--json", *words])
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout)["wallet"] == WHOLE.wallet_url
    both = run.invoke(main, ["installation", "show", "--installation", str(path), "--data", str(path.parent)])
    assert (both.exit_code, "not both" in both.output) == (2, True)
    none = run.invoke(main, ["installation", "show", "--installation", str(path.parent / "secrets.json")])
    assert "its name ends with .toml" in none.output
    monkeypatch.setenv("HONGBAO_INSTALLATION", str(path))
    assert data_folder.locate(None).named == path
    assert find(None).wallet_url == WHOLE.wallet_url


def test_backups_are_where_the_file_says(path: Path) -> None:
    """Unless --folder says otherwise; without either it is refused with both ways to say it."""
    run = CliRunner()
    listed = run.invoke(main, ["backup", "list", "set-1", "--installation", str(path)])
    assert "/backups" in listed.output
    inventory.save(msgspec.structs.replace(WHOLE, backups=""), path)
    refused = run.invoke(main, ["backup", "list", "set-1", "--installation", str(path)])
    assert (refused.exit_code, "say where the backups are: --folder PLACE" in refused.output) == (1, True)
