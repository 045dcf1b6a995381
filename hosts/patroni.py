"""Patroni: installed from locked packages, and configured for one host of a cluster in synchronous mode."""

import asyncio
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from errors import Refused
from hosts import etcd
from hosts.host import Host
from hosts.limits import LOOP_S, RETRY_S, TTL_S, WAL_SENDER_S
from hosts.program import HostProgram
from hosts.subnet import Subnet
from machine.account import Account
from machine.checkout import CHECKOUT
from machine.postgres.binaries import Binaries
from machine.postgres.settings import RESERVED, RESERVED_SINCE, SETTINGS

LOCKED = CHECKOUT / "requirements" / "patroni.txt"
INSTALL_S = 300.0
PORT, REST = 5432, 8008
SUPERUSER = "postgres"

_SMALL: Mapping[str, str] = {
    "shared_buffers": "32MB",
    "max_wal_size": "512MB",
    "max_locks_per_transaction": "1024",
    "wal_sender_timeout": f"{WAL_SENDER_S}s",
    "wal_receiver_timeout": f"{WAL_SENDER_S}s",
    "max_wal_senders": "12",
    "max_replication_slots": "12",
    # For pg_rewind where initdb of this version makes no checksums.
    "wal_log_hints": "on",
}
_PATRONIS_OWN = frozenset({"listen_addresses", "log_line_prefix"})
_KEPT_SLOTS: Sequence[Mapping[str, str]] = (
    # Patroni drops slots that it does not know, unless it is told not to: those of a live move, with its first copies,
    {"type": "logical", "plugin": "pgoutput"},
    # and that of the kept log (`backup.logkeeper`).
    {"name": "hongbao_backup", "type": "physical"},
)


@dataclass(frozen=True)
class PatroniProgram:
    """How Patroni is run: a Python that has none of our packages, and the folder of its own."""

    python: Path
    packages: Path

    def argv(self, config: Path) -> list[str]:
        """Return the command for a configuration file."""
        return [str(self.python), "-s", "-P", "-m", "patroni", str(config)]

    def env(self) -> dict[str, str]:
        """Return the environment variables that it needs."""
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return {**kept, "PYTHONPATH": str(self.packages), "PYTHONDONTWRITEBYTECODE": "1"}


async def find_patroni(account: Account, data: Path) -> PatroniProgram:
    """Return Patroni as requirements/patroni.txt locks it, installed in .tools at the first call.

    If `account` cannot enter the checkout it is copied to `data`. Raises Refused `no_patroni`.
    """
    python = Path(sys.executable).resolve()
    if not account.can_access("-x", python):
        raise Refused("no_patroni", f"user {account.name} cannot run {python}; install a Python for all users")
    # The name has the lock's hash: another lock is another folder, and whole once it is there.
    digest = hashlib.sha256(LOCKED.read_bytes() + sys.version.encode()).hexdigest()[:12]
    packages = CHECKOUT / ".tools" / f"patroni-{digest}"
    if not packages.exists():
        await _install(packages)
    if not account.can_access("-r", packages / "patroni" / "__main__.py"):
        copied = data / "software" / packages.name
        await asyncio.to_thread(shutil.copytree, packages, copied, dirs_exist_ok=True)
        for folder in (copied.parent, copied):
            folder.chmod(0o755)
        packages = copied
    return PatroniProgram(python, packages)


async def _install(packages: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        raise Refused("no_patroni", "Patroni is not installed, and there is no uv beside this Python; run ./run once")
    packages.parent.mkdir(exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{packages.name}.", dir=packages.parent))
    command = [
        str(uv), "pip", "install", "--quiet", "--no-progress", "--python", sys.executable, "--target", str(aside),
        "--require-hashes", "-r", str(LOCKED),
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "UV_CACHE_DIR": str(packages.parent / "cache"), "UV_NO_CONFIG": "1"},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(INSTALL_S):
            _, said = await process.communicate()
        if process.returncode:
            reason = said.decode(errors="replace").strip()
            raise Refused("no_patroni", f"Patroni cannot be installed from PyPI; check the network: {reason}")
        aside.chmod(0o755)
        if not packages.exists():
            aside.rename(packages)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        shutil.rmtree(aside, ignore_errors=True)


def parameters(binaries: Binaries) -> dict[str, Any]:
    """Return Postgres' settings: those of every server of ours, with less memory, and replication that is watched."""
    found = {name: value for name, value in {**SETTINGS, **_SMALL}.items() if name not in _PATRONIS_OWN}
    if binaries.major >= RESERVED_SINCE:
        found["reserved_connections"] = str(RESERVED)
    if binaries.has_pg_stat_statements():
        found |= {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "off"}
    return found


def patroni_config(
    scope: str,
    host: Host,
    subnet: Subnet,
    binaries: Binaries,
    etcd_hosts: Sequence[Host],
    password: str,
    *,
    alone: bool,
) -> dict[str, Any]:
    """Return the configuration of one member. `alone`: the cluster has no other, so no commit waits for a standby."""
    login = {"username": SUPERUSER, "password": password}
    networks = [str(subnet.front), str(subnet.back)]
    return {
        "scope": scope,
        "namespace": "/hongbao/",
        "name": host.name,
        "log": {"level": "INFO"},
        "restapi": {"listen": f"0.0.0.0:{REST}", "connect_address": f"{host.back}:{REST}"},
        "etcd3": {"hosts": [f"{one.back}:{etcd.CLIENTS}" for one in etcd_hosts]},
        "bootstrap": {
            "dcs": {
                "ttl": TTL_S,
                "loop_wait": LOOP_S,
                "retry_timeout": RETRY_S,
                "synchronous_mode": not alone,
                # Without a standby nothing is confirmed, rather than confirmed by one disk alone.
                "synchronous_mode_strict": not alone,
                "ignore_slots": list(_KEPT_SLOTS),
                "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": parameters(binaries)},
            },
            "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "scram-sha-256"}],
        },
        "postgresql": {
            "listen": f"{host.front},{host.back}:{PORT}",
            "connect_address": f"{host.back}:{PORT}",
            "data_dir": str(host.folder / "postgres"),
            "bin_dir": str(binaries.folder),
            "pgpass": str(host.folder / "own" / "pgpass"),
            "authentication": {"superuser": login, "replication": login, "rewind": login},
            "create_replica_methods": ["basebackup"],
            "basebackup": [{"checkpoint": "fast"}],
            "remove_data_directory_on_rewind_failure": True,
            "remove_data_directory_on_diverged_timelines": True,
            "pg_hba": [
                f"host {what} all {network} scram-sha-256" for network in networks for what in ("all", "replication")
            ],
        },
    }  # fmt: skip


def patroni_member(program: PatroniProgram, config: Mapping[str, Any], host: Host, account: Account) -> HostProgram:
    """Return a member of a cluster, not started; its configuration is written for the account alone."""
    own = host.folder / "own"
    own.mkdir(mode=0o700, exist_ok=True)
    path = own / "patroni.json"  # JSON is YAML
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    account.chown(own)
    account.chown(path)
    # Patroni makes the cluster's folder itself, in one that is its account's.
    account.chown(host.folder)
    return HostProgram("patroni", host, account, program.argv(path), program.env())
