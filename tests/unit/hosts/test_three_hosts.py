"""What `deploy/hosts/configure` writes on a host, and that Postgres is set there as `./run` sets it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hosts.limits import LOOP_S, RETRY_S, TTL_S
from hosts.patroni import PORT, REST
from machine.checkout import CHECKOUT
from machine.postgres.settings import RESERVED, SETTINGS

HERE = CHECKOUT / "deploy" / "hosts"
FILLED = """HOSTS="hb1=10.0.0.1 hb2=10.0.0.2 hb3=10.0.0.3"
NETWORK=10.0.0.0/24
WALLET_SUPERUSER=secret-of-wallet
SET_1_SUPERUSER=secret-of-set-1
REPLICATOR=secret-of-replicas
"""
SIZED = {"shared_buffers", "max_wal_size"}
"""What goes by the machine."""
PATRONIS_OWN = {"listen_addresses", "log_line_prefix", "unix_socket_directories"}


def configured(root: Path, host: str, filled: str = FILLED) -> subprocess.CompletedProcess[str]:
    for folder in ("etc/default", "etc/patroni", "etc/nginx"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc" / "hosts").touch()
    (root / "hosts.env").write_text(filled)
    return subprocess.run(
        ["/bin/sh", HERE / "configure", host, root / "hosts.env"],
        env={"ROOT": str(root), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of the second host, configured twice."""
    for _ in range(2):
        ran = configured(tmp_path, "hb2")
        assert ran.returncode == 0, ran.stderr
    return tmp_path


def patroni(root: Path, scope: str) -> Any:
    return yaml.safe_load((root / "etc" / "patroni" / f"{scope}.yml").read_text())


def test_postgres_is_set_as_run_sets_it(root: Path) -> None:
    """Each setting of `./run`'s servers has the same value in the template, but for what goes by the machine."""
    dcs = patroni(root, "set-1")["bootstrap"]["dcs"]
    found = {name: str(value) for name, value in dcs["postgresql"]["parameters"].items()}
    wanted = {name: value for name, value in SETTINGS.items() if name not in SIZED | PATRONIS_OWN}
    assert wanted.items() <= found.items()
    assert int(found["reserved_connections"]) == RESERVED
    assert (dcs["ttl"], dcs["loop_wait"], dcs["retry_timeout"]) == (TTL_S, LOOP_S, RETRY_S)
    assert dcs["synchronous_mode"]
    assert dcs["synchronous_mode_strict"]
    assert dcs["slots"] == {"hongbao_backup": {"type": "physical"}}


def test_each_cluster_has_ports_and_passwords_of_its_own(root: Path) -> None:
    """Two members of one host share etcd and nothing else; only their account may read their passwords."""
    wallet, one = (patroni(root, scope) for scope in ("wallet", "set-1"))
    assert (wallet["scope"], one["scope"], wallet["name"], one["name"]) == ("wallet", "set-1", "hb2", "hb2")
    assert wallet["postgresql"]["listen"] == f"10.0.0.2:{PORT}"
    assert wallet["restapi"]["connect_address"] == f"10.0.0.2:{REST}"
    assert one["postgresql"]["listen"] == "10.0.0.2:5433"
    assert one["restapi"]["listen"] == "10.0.0.2:8009"
    assert wallet["etcd3"] == one["etcd3"] == {"hosts": [f"10.0.0.{number}:2379" for number in (1, 2, 3)]}
    logins = [each["postgresql"]["authentication"]["superuser"]["password"] for each in (wallet, one)]
    assert logins == ["secret-of-wallet", "secret-of-set-1"]
    assert "host replication all 10.0.0.0/24 scram-sha-256" in one["postgresql"]["pg_hba"]
    assert (root / "etc" / "patroni" / "wallet.yml").stat().st_mode & 0o777 == 0o600


def test_any_password_is_written_as_it_is(tmp_path: Path) -> None:
    """What is special to the shell's tools or to YAML is so in no password."""
    awkward = r"""a/b&c\1#d:e'f"g @REPLICATOR@ {h}, %i"""
    quoted = "'" + awkward.replace("'", r"'\''") + "'"
    filled = FILLED.replace("secret-of-set-1", quoted).replace("secret-of-replicas", quoted)
    ran = configured(tmp_path, "hb1", filled)
    assert ran.returncode == 0, ran.stderr
    logins = patroni(tmp_path, "set-1")["postgresql"]["authentication"]
    assert {name: one["password"] for name, one in logins.items()} == {"superuser": awkward, "replication": awkward}


def test_no_password_is_an_argument(tmp_path: Path) -> None:
    """Everybody on the host sees the arguments of programs, in `ps`; each program notes its own here."""
    bin_, seen = tmp_path / "bin", tmp_path / "seen"
    bin_.mkdir()
    for name in ("sed", "awk", "tr", "grep", "install", "dirname", "readlink"):
        (bin_ / name).write_text(
            f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >>"{seen}"\nPATH=/usr/bin:/bin exec {name} "$@"\n'
        )
        (bin_ / name).chmod(0o755)
    ran = configured(tmp_path, "hb2", FILLED + f"PATH={bin_}:$PATH\n")
    assert ran.returncode == 0, ran.stderr
    assert "patroni.yml" in seen.read_text()
    assert "secret-of-" not in seen.read_text()


def test_names_etcd_and_nginx_know_all_hosts(root: Path) -> None:
    """Names are added once, however often it runs; nginx has three gateways; memcached is on the first host alone."""
    names = (root / "etc" / "hosts").read_text().splitlines()
    assert len(names) == len(set(names)) == 12
    assert {"10.0.0.1 wallet.hongbao", "10.0.0.3 wallet.hongbao", "10.0.0.3 events.hongbao"} < set(names)
    etcd = dict(line.split("=", 1) for line in (root / "etc/default/etcd").read_text().splitlines() if line[:1] != "#")
    assert etcd["ETCD_NAME"] == "hb2"
    assert etcd["ETCD_INITIAL_CLUSTER"] == ",".join(f"hb{number}=http://10.0.0.{number}:2380" for number in (1, 2, 3))
    nginx = (root / "etc/nginx/nginx.conf").read_text()
    assert [f"server 10.0.0.{number}:8080;" in nginx for number in (1, 2, 3)] == [True] * 3
    assert "listen 10.0.0.2:80;" in nginx
    assert "127.0.0.1:80" not in nginx
    assert not (root / "etc/memcached.conf").exists()
    assert configured(root, "hb1").returncode == 0
    assert "-l 10.0.0.1" in (root / "etc/memcached.conf").read_text()
    assert "@" not in nginx + str(etcd) + str(patroni(root, "wallet"))


def test_another_set_has_its_own_postgres_and_memcached(tmp_path: Path) -> None:
    """Ports count up from those of the first, whose files stay what they were; its memcached is on the second host."""
    first, second = (tmp_path / host for host in ("hb1", "hb2"))
    filled = FILLED.replace("NETWORK", 'SETS="set-1 set-2"\nSET_2_SUPERUSER=secret-of-set-2\nNETWORK')
    assert configured(first, "hb1").returncode == 0
    before = (first / "etc/patroni/set-1.yml").read_text()
    for folder, host in ((first, "hb1"), (second, "hb2")):
        ran = configured(folder, host, filled)
        assert ran.returncode == 0, ran.stderr
    assert (first / "etc/patroni/set-1.yml").read_text() == before
    made = patroni(second, "set-2")
    assert (made["scope"], made["postgresql"]["listen"], made["restapi"]["listen"]) == (
        "set-2", "10.0.0.2:5434", "10.0.0.2:8010",
    )  # fmt: skip
    assert made["postgresql"]["data_dir"] == "/var/lib/postgresql/set-2"
    assert made["postgresql"]["authentication"]["superuser"]["password"] == "secret-of-set-2"
    for folder, address in ((first, "10.0.0.1"), (second, "10.0.0.2")):
        assert f"-l {address}" in (folder / "etc/memcached.conf").read_text()
    assert configured(tmp_path / "hb3", "hb3", filled).returncode == 0
    assert not (tmp_path / "hb3/etc/memcached.conf").exists()


@pytest.mark.parametrize(
    ("host", "filled", "says"),
    [
        ("hb9", FILLED, "hb9 is none of hb1=10.0.0.1"),
        ("hb1", FILLED.replace("REPLICATOR=secret-of-replicas", "REPLICATOR="), "REPLICATOR is not set"),
        ("hb1", f'SETS="set-1 set-2"\n{FILLED}', "SET_2_SUPERUSER is not set"),
        ("hb1", f'SETS="set-1 Set/2"\n{FILLED}', "Set/2 is no name of a SET"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_written(tmp_path: Path, host: str, filled: str, says: str) -> None:
    """A host that is not in the list, a password that was forgotten: a sentence, and no file."""
    ran = configured(tmp_path, host, filled)
    assert (ran.returncode, says in ran.stderr) == (2, True), ran.stderr
    assert not (tmp_path / "etc/default/etcd").exists()
    assert not (tmp_path / "etc/hosts").read_text()
