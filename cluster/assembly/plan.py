"""Turns a configuration into parts: who listens where, and what each process is told (its environment)."""

import errno
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from cluster.assembly.config import StackConfig
from cluster.machine import ports
from cluster.machine.account import Account
from cluster.machine.datafolder import DataFolder
from cluster.machine.keys import Secrets
from cluster.pg import roles
from cluster.pg.postgres import Postgres, PostgresSpec
from cluster.supervision.memcached import Memcached, MemcachedSpec
from cluster.supervision.services import Service, ServiceSpec
from envelope.errors import Refused

WALLET = "wallet"


@dataclass
class Servers:
    """The parts that are not ours: a Postgres for each SET, one for the wallet, one memcached."""

    postgres: dict[str, Postgres]
    memcached: Memcached


def plan_servers(config: StackConfig, folder: DataFolder, secrets: Secrets, account: Account) -> Servers:
    """Return database servers and memcached, not started. Makes missing secrets."""
    names = [WALLET, *config.set_names()]
    secrets.ensure({name: roles.roles_of(kind_of(name)) for name in names})
    return Servers(
        {
            name: Postgres(
                PostgresSpec(
                    f"postgres-{name}", folder.postgres(name), folder.log(f"postgres-{name}"), secrets.passwords(name)
                ),
                account=account,
            )
            for name in names
        },
        Memcached(MemcachedSpec("memcached", folder.path, folder.log("memcached")), account=account),
    )


def kind_of(server: str) -> str:
    """Return what a database server holds: "wallet" or "set"."""
    return "wallet" if server == WALLET else "set"


class Plan:
    """The processes of ours, with addresses from the beginning and settings once the servers have theirs."""

    def __init__(self, config: StackConfig, folder: DataFolder, secrets: Secrets) -> None:
        self._config = config
        self._folder = folder
        self._keys = secrets.environment()
        self._ports = {name: ports.free_port() for name in self._names()}
        self.gateway_ports = _gateway_ports(config)

    def _names(self) -> list[str]:
        config = self._config
        return [WALLET, *(one for name in config.set_names() for one in config.server_names(name))]

    def url(self, name: str) -> str:
        """Return where the wallet or a setnode server listens."""
        return f"http://{ports.LOOPBACK}:{self._ports[name]}"

    def archive_key(self) -> str:
        """Return the key with which the setnodes read the archive."""
        return {**self._keys, **self._config.env}["HONGBAO_ARCHIVE_KEY"]

    def wallet(self, servers: Servers) -> Service:
        """Return the wallet's process."""
        dsn = servers.postgres[WALLET].dsn(roles.WALLET, roles.DATABASE)
        return self._service(WALLET, "wallet", self.url(WALLET), {"HONGBAO_POSTGRES_DSN": dsn})

    def setnodes(self, set_name: str, servers: Servers) -> list[Service]:
        """Return the processes of one SET."""
        env = {
            "HONGBAO_SET": set_name,
            "HONGBAO_POSTGRES_DSN": servers.postgres[set_name].dsn(roles.SETNODE, roles.DATABASE),
            "HONGBAO_MEMCACHED": servers.memcached.address,
        }
        return [
            self._service(name, "setnode", self.url(name), {**env, "HONGBAO_SERVER": name})
            for name in self._config.server_names(set_name)
        ]

    def gateways(self) -> list[Service]:
        """Return the gateways' processes."""
        return [
            self._service(f"gateway-{number}", "gateway", f"http://{self._config.host}:{port}", {})
            for number, port in enumerate(self.gateway_ports, start=1)
        ]

    def _service(self, name: str, kind: str, url: str, more: dict[str, str]) -> Service:
        parts = urlsplit(url)
        env = {
            "HONGBAO_TOPOLOGY": str(self._folder.topology),
            "HONGBAO_WALLET_URL": self.url(WALLET),
            "HONGBAO_ARCHIVE": str(self._folder.archive),
            **self._keys,
            **self._config.env,
            **more,
        }
        return Service(
            ServiceSpec(
                name, self._config.modules[kind], str(parts.hostname), int(parts.port or 0), env, self._folder.log(name)
            )
        )


def check_gateway_ports(config: StackConfig) -> None:
    """Raise Refused where the gateways cannot listen on --host and --port."""
    for port in _wanted(config) or [0]:
        error = ports.what_prevents(port, config.host)
        if error is not None or not config.host:
            raise _unusable(config.host, port, error)


def _gateway_ports(config: StackConfig) -> list[int]:
    check_gateway_ports(config)
    return _wanted(config) or [ports.free_port() for _ in range(config.gateways)]


def _wanted(config: StackConfig) -> list[int]:
    return [config.port + number for number in range(config.gateways)] if config.port else []


def _unusable(host: str, port: int, error: Exception | None) -> Refused:
    number = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
    if number == errno.EADDRINUSE:
        return Refused("port_taken", f"port {port} on {host} is taken; choose another with --port")
    if number == errno.EACCES:
        return Refused("port_forbidden", f"only root may listen on port {port}; choose one above 1023 with --port")
    return Refused(
        "host_invalid",
        f"--host {host!r} is no IPv4 address or name of this machine; 127.0.0.1 is for this machine alone, 0.0.0.0 for "
        "all networks that it is in",
    )
