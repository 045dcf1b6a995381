"""`./run installation certificates`: a CA once, certificates that are kept while they are good, every wrong wish."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509

from cli.table import main
from doctor import certificates as checks
from doctor.finding import Level
from doctor.place import Place
from errors import Refused
from installation import data_folder, inventory
from installation.access import Access
from installation.certificates import Certificates, Wanted, wanted_of, with_hosts
from installation.inventory import Inventory
from installation.keys import Secrets
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from tests.clock import ManualClock

WALLET_URL = "https://wallet.example:18001"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An installation of two servers, as files alone."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    servers = (ServerSpec("set-1-a", "https://10.0.0.7:18002"), ServerSpec("set-1-b", "https://b.example:18002"))
    dump(Topology(1, 100, (SetSpec("set-1", servers),), WALLET_URL), folder / "topology.json")
    secrets = Secrets(folder / "secrets.json", {})
    secrets.ensure({})
    inventory.save(Inventory(
        clusters={}, gateways={"gateway-1": "http://127.0.0.1:8080"}, wallet_url=WALLET_URL, memcached="127.0.0.1:1",
        topology=str(folder / "topology.json"), archive=str(folder / "archive"), secrets=str(folder / "secrets.json"),
    ), folder / "installation.toml")  # fmt: skip
    return folder


def hongbao(data: Path, *words: str) -> tuple[int, Any]:
    done = CliRunner().invoke(main, ["installation", "certificates", *words, "--json", "--data", str(data)])
    return done.exit_code, json.loads(done.stdout) if done.exit_code == 0 else done.output


def hosts_of(path: Path) -> list[str]:
    try:
        names = x509.load_pem_x509_certificate(path.read_bytes()).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return []
    return [str(one.value) for one in names.value]


def test_each_process_gets_one_for_its_hosts(data: Path) -> None:
    """Servers for the hosts of their URLs and those that are added, callers for none; a second call keeps all."""
    code, told = hongbao(data, "--host", "set-1-a=a.example", "--host", "postgres-set-1=db1.example")
    assert code == 0, told
    made = {one["name"]: (one["role"], one["hosts"], one["made"]) for one in told["certificates"]}
    assert made == {
        "set-1-a": ("setnode/set-1", ["10.0.0.7", "a.example"], True),
        "set-1-b": ("setnode/set-1", ["b.example"], True),
        "wallet": ("wallet", ["wallet.example"], True),
        "gateway": ("gateway", [], True),
        "operator": ("operator", [], True),
        "postgres-set-1": ("server", ["db1.example"], True),
    }
    for name, (_, hosts, _) in made.items():
        assert hosts_of(data / "certificates" / f"{name}.pem") == hosts
    before = {path.name: path.read_bytes() for path in (data / "certificates").iterdir()}
    code, told = hongbao(data, "--host", "set-1-a=a.example", "--host", "postgres-set-1=db1.example")
    assert [one["made"] for one in told["certificates"]] == [False] * 6
    assert {path.name: path.read_bytes() for path in (data / "certificates").iterdir()} == before
    code, told = hongbao(data, "--renew", "wallet", "gateway-2")
    assert [(one["name"], one["made"]) for one in told["certificates"]] == [("wallet", True), ("gateway-2", True)]
    assert (data / "certificates/ca.pem").read_bytes() == before["ca.pem"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nobody"], "there is no 'nobody'; there are set-1-a, set-1-b, wallet, gateway, operator"),
        (["--host", "set-1-a"], "--host takes NAME=HOST"),
        (["--host", "set-1-a="], "'' is no host name and no address"),
        (["--host", "set-1-a=a b"], "'a b' is no host name and no address"),
        (["--host", "set-1-a=*.example"], "is no host name and no address"),
        (["--host", "set-1-a=https://a"], "is no host name and no address"),
        (["--host", f"set-1-a={'a' * 254}"], "is no host name and no address"),
        (["--host", "gateway=a.example"], "gateway only calls"),
        (["--host", "ca=a.example"], "'ca' is no name of a certificate"),
        (["--host", "../x=a.example"], "'../x' is no name of a certificate"),
        (["--days", "0"], "valid for 1 to 3650 days, not 0"),
        (["--days", "4000"], "valid for 1 to 3650 days, not 4000"),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_written(data: Path, words: list[str], sentence: str) -> None:
    """One sentence says what is wrong."""
    code, said = hongbao(data, *words)
    assert code == 1
    assert sentence in " ".join(said.split())
    assert not (data / "certificates").exists()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("taken away", "bring it back from where it is kept"),
        ("of another CA", "is not the key of"),
        ("no key", "is no key of a CA"),
    ],
)
def test_without_the_key_of_the_ca_nothing_is_made(data: Path, tmp_path: Path, wrong: str, sentence: str) -> None:
    """The CA is not made anew beside certificates that it has signed: all of them would be refused."""
    assert hongbao(data)[0] == 0
    key = data / "certificates/ca.key"
    if wrong == "taken away":
        key.unlink()
    elif wrong == "no key":
        key.write_text("nothing")
    else:
        other = Certificates(tmp_path / "other")
        other.ensure([])
        key.write_bytes((other.folder / "ca.key").read_bytes())
    before = (data / "certificates/wallet.pem").read_bytes()
    code, said = hongbao(data, "--renew")
    assert code == 1
    assert sentence in said
    assert (data / "certificates/wallet.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("ago_days", "level", "sentence"),
    [
        (0, None, ""),
        (340, Level.SOON, "expires at"),
        (366, Level.WRONG, "has expired at"),
        (-2, Level.WRONG, "is not valid before"),
    ],
)
async def test_doctor_warns_thirty_days_before(data: Path, ago_days: int, level: Level | None, sentence: str) -> None:
    """Each file is looked at; what may not be used is wrong, what soon may not be is said in time."""
    folder = Certificates(data / "certificates", ManualClock(datetime.now(UTC) - timedelta(days=ago_days)))
    folder.ensure([Wanted("gateway", "gateway")])
    found = [one for one in checks._files(_access(data)) if one.subject == "gateway"]
    assert [one.level for one in found] == ([level] if level else [])
    assert all(sentence in one.what and one.do for one in found)


async def test_doctor_says_nothing_where_there_is_no_tls(data: Path) -> None:
    """An installation without certificates, whose URLs are http://, has no finding of this kind; a broken file has."""
    topology = Topology(
        1, 100, (SetSpec("set-1", (ServerSpec("set-1-a", "http://127.0.0.1:1"),)),), "http://127.0.0.1:1"
    )
    access = _access(data, wallet_url="http://127.0.0.1:1")
    place = Place(data_folder.locate(data), access, topology)
    assert await checks.certificates(place) == []
    Certificates(data / "certificates").ensure([Wanted("gateway", "gateway")])
    assert [one.level for one in await checks.certificates(place)] == [Level.OK]
    (data / "certificates/gateway.pem").write_text("nothing")
    (one,) = await checks.certificates(place)
    assert (one.level, "holds no certificate" in one.what) == (Level.WRONG, True)


async def test_doctor_names_a_certificate_for_operators_that_is_missing(data: Path) -> None:
    """Without it no command reaches a server at https://."""
    place = Place(data_folder.locate(data), _access(data), _access(data).topology())
    (one,) = await checks.certificates(place)
    assert (one.subject, one.level) == ("operator", Level.WRONG)


def _access(data: Path, wallet_url: str = WALLET_URL) -> Access:
    known = Inventory(
        clusters={}, gateways={"gateway-1": "http://127.0.0.1:8080"}, wallet_url=wallet_url, memcached="127.0.0.1:1",
        topology=str(data / "topology.json"), archive=str(data / "archive"), secrets=str(data / "secrets.json"),
    )  # fmt: skip
    return Access(known, Secrets.load(data / "secrets.json"))


def test_a_name_that_only_calls_has_no_host(data: Path) -> None:
    """Neither by the topology nor by a wish."""
    wanted = wanted_of(_access(data).topology().sets, WALLET_URL)
    with pytest.raises(Refused, match="operator only calls"):
        with_hosts(wanted, {"operator": ["a.example"]})


def test_a_process_is_given_its_own_certificate(data: Path) -> None:
    """`serve` sets it where the wallet is called at https://; a gateway without its own takes that of all gateways."""
    assert hongbao(data)[0] == 0
    settings = _access(data).certificates.settings("gateway-7", "gateway")
    assert settings["HONGBAO_TLS_CERT"].endswith("/gateway.pem")
    assert _access(data).certificates.settings("set-9-z", "setnode") == {}
    env, _ = _access(data).process("gateway")
    assert env["HONGBAO_TLS_CA"].endswith("/ca.pem")
    assert "HONGBAO_TLS_CERT" not in _access(data, "http://127.0.0.1:1").process("gateway")[0]


def test_commands_show_the_operators_certificate_only_where_something_asks_for_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment's comes first; where every URL is http:// none is read, and a broken one breaks nothing."""
    assert _access(data).tls is None
    assert hongbao(data)[0] == 0
    tls = _access(data).tls
    assert tls is not None
    assert tls.files.cert == data / "certificates/operator.pem"
    monkeypatch.setenv("HONGBAO_TLS_CERT", str(data / "certificates/gateway.pem"))
    with pytest.raises(Refused, match="go together"):
        _ = _access(data).tls
    monkeypatch.setenv("HONGBAO_TLS_CA", str(data / "certificates/ca.pem"))
    tls = _access(data).tls
    assert tls is not None
    assert tls.files.cert == data / "certificates/gateway.pem"
    topology = Topology(1, 100, (SetSpec("set-1", (ServerSpec("set-1-a", "http://127.0.0.1:1"),)),), "http://a")
    dump(topology, data / "topology.json")
    (data / "certificates/gateway.pem").write_text("nothing")
    assert _access(data, "http://127.0.0.1:1").tls is None
