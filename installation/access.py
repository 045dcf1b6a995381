"""An installation as a command sees it: its addresses, keys, wallet and databases."""

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from archive.manifest import fingerprint
from archive.place import Archive
from archive.store import root_of
from audit.proof import AuditTarget, audit
from audit.proofs import Proofs
from audit.report import Report
from errors import Refused, Unavailable
from gateway.identity.tokens import make_token
from installation.auditing import audit_until_still
from installation.certificates import TLS_SETTINGS, Certificates
from installation.inventory import Inventory
from installation.keys import Secrets
from installation.processes import Surroundings, memcached_of, place_of, settings_of
from published.publisher import Publisher
from runtime.clock import Clock, SystemClock
from runtime.dsn import password_of, with_login, wrong_dsn
from runtime.login import login
from runtime.sandbox_clock import ahead_ms
from runtime.tls import Tls, files_of
from schema import roles
from sharding.ids import business_date
from sharding.slots import slots_of
from sharding.topology import ServerSpec, SetSpec, Topology, load
from wire.keys import OPERATOR, SETNODE, WALLET, LinkKey
from wire.link import Link
from wire.wallet import WalletClient

CONNECT_S = 10.0
SUPERUSER = "postgres"
TOKEN_S = 3600
CERTIFICATES = "certificates"
PROOFS = "audit-proofs.json"
"""Beside secrets.json: what earlier audits have proven (`audit.proofs`)."""


class Access:
    """Made from files alone; a process or a database is contacted only by `wallet` and `audit`.

    `clock` is the one by which the installation goes: the machine's, or a sandbox's. `source` is where it was found: a
    data folder, or an installation file.
    """

    def __init__(
        self, inventory: Inventory, secrets: Secrets, clock: Clock | None = None, source: Path | None = None
    ) -> None:
        self._inventory = inventory
        self._secrets = secrets
        self._source = source or secrets.path.parent
        self.clock = clock or SystemClock()
        self._tls: Tls | None = None

    @property
    def gateway_url(self) -> str:
        """The address at which clients find the gateways."""
        return self._inventory.gateway_urls[0]

    @property
    def gateway_urls(self) -> list[str]:
        """All addresses at which clients find gateways."""
        return list(self._inventory.gateway_urls)

    @property
    def wallet_url(self) -> str:
        """Where the wallet listens."""
        return self._inventory.wallet_url

    @property
    def events_url(self) -> str:
        """Where the process that delivers events has its probes; "" if none does."""
        return self._inventory.events_url

    @property
    def rotation_url(self) -> str:
        """Where the process that rotates days has its probes; "" if none does."""
        return self._inventory.rotation_url

    @property
    def memcached(self) -> str:
        """Where memcached listens: host:port, or the path of a socket."""
        return self._inventory.memcached

    @property
    def runner(self) -> bool:
        """Whether `./run` starts all of it on this machine."""
        return self._inventory.runner

    def memcached_addresses(self) -> list[str]:
        """Return where memcached listens for the setnodes: one address for each SET, or one for all."""
        named = [one.memcached or self.memcached for one in self._inventory.setnodes.values()] or [self.memcached]
        return list(dict.fromkeys(one for one in named if one))

    @property
    def certificates(self) -> Certificates:
        """The folder of the installation's certificates; it need not be there."""
        return Certificates(self._secrets.path.with_name(CERTIFICATES))

    @property
    def tls(self) -> Tls | None:
        """What a command shows to processes at https://: what HONGBAO_TLS_CERT names, else the operators' certificate.

        None if there is neither, or if all of them are at http://. Raises Refused `settings_invalid`,
        `tls_files_invalid`.
        """
        if not any(urlsplit(url).scheme == "https" for url in self._urls()):
            return None
        if self._tls is None:
            given = files_of(*(os.environ.get(one, "") for one in TLS_SETTINGS))
            files = given or self.certificates.files(OPERATOR)
            self._tls = None if files is None else Tls(files)
        else:
            self._tls.look()
        return self._tls

    def is_secure(self, address: str) -> bool:
        """Say whether a part of ours speaks TLS at this address, HOST:PORT."""
        return any(urlsplit(url).scheme == "https" and urlsplit(url).netloc == address for url in self._urls())

    def _urls(self) -> Iterator[str]:
        """Yield where our processes are called; the topology is read only after the wallet's address."""
        yield self.wallet_url
        yield from (server.url for one in self.topology().sets for server in one.servers)

    @property
    def backups(self) -> str:
        """Where backups are kept, a folder or `s3://bucket/prefix`.

        Raises Refused `no_backups` if the inventory does not say.
        """
        if not self._inventory.backups:
            raise Refused(
                "no_backups", "say where the backups are: --folder PLACE, or `backups` in the installation file"
            )
        return self._inventory.backups

    def topology(self) -> Topology:
        """Read the topology file: which SET holds which database, and where its servers are.

        Raises Refused `topology_invalid`.
        """
        if not self.runner and not self.topology_path.exists():
            text = "and no database has answered that has it: wait for them, bring the file from where it is kept"
            raise Refused("topology_invalid", f"{self.topology_path} is not there, {text}, or make it: topology apply")
        return load(self.topology_path)

    @property
    def topology_path(self) -> Path:
        """The topology file."""
        return Path(self._inventory.topology)

    def set_specs(self) -> list[SetSpec]:
        """Return the SETs with their servers, as the inventory has them: for the topology."""
        servers: dict[str, list[ServerSpec]] = {}
        memcached: dict[str, str] = {}
        for name, one in self._inventory.setnodes.items():
            servers.setdefault(one.set, []).append(ServerSpec(name, one.url))
            memcached.setdefault(one.set, one.memcached or self.memcached)
        return [SetSpec(name, tuple(some), memcached=memcached[name]) for name, some in servers.items()]

    def publisher(self) -> Publisher:
        """Return what changes topology and switches for all processes, as the owner of all databases.

        Raises Refused `no_dsn`, `secrets_missing`.
        """
        owners = {name: self.dsn(name, roles.OWNER) for name in self._inventory.clusters}
        return Publisher(self.topology_path, owners, login())

    async def refresh(self) -> None:
        """Bring this host's topology and switches up to what is published in the databases that it may read.

        A host that reads none, such as a gateway's, is left to its processes; nothing is raised for one that is away.
        """
        dsns = {}
        for name, cluster in self._inventory.clusters.items():
            if roles.AUDIT in cluster.dsns:
                with contextlib.suppress(Refused):
                    dsns[name] = self.dsn(name, roles.AUDIT)
        await Publisher(self.topology_path, dsns, login()).refresh()

    def today(self) -> date:
        """Return the business date now, in the topology's zone."""
        return business_date(self.clock.now(), self.topology().zone)

    def wallet_dsn(self, role: str = roles.AUDIT) -> str:
        """Return a role's DSN of the wallet's database."""
        return self.dsn("wallet", role)

    def token(self, user: str) -> str:
        """Return a bearer token of `user` that is valid for an hour."""
        return make_token(self._secrets.key("TOKEN_KEY"), user, ttl_s=TOKEN_S, clock=self.clock)

    def token_environment(self) -> dict[str, str]:
        """Return the environment variable with which a process of ours makes bearer tokens itself."""
        return {"HONGBAO_TOKEN_KEY": self._secrets.key("TOKEN_KEY")}

    def key(self, name: str) -> str:
        """Return one of `installation.keys.KEYS`; raises Refused `no_key`."""
        return self._secrets.key(name)

    def operator_key(self) -> LinkKey:
        """Return the key with which an operator calls servers (`wire.keys`)."""
        return self._secrets.link_key(OPERATOR)

    def metrics_headers(self) -> dict[str, str]:
        """Return the HTTP headers that open `/metrics`."""
        return {"Authorization": f"Bearer {self._secrets.key('METRICS_KEY')}"}

    @staticmethod
    def order_no() -> str:
        """Return a new order number for a deposit."""
        return f"D{uuid.uuid4().hex}"

    def process(self, kind: str, name: str = "") -> tuple[dict[str, str], str]:
        """Return the settings of a process (`installation.processes`), and where it listens: HOST:PORT, or "".

        Raises Refused `unknown_kind`, `unknown_server`, `server_missing`, `no_key`; `is_sandbox` where the runner alone
        starts processes.
        """
        if self._inventory.sandbox:
            raise Refused("is_sandbox", "this is a sandbox: ./run --sandbox starts all of its processes")
        set_name, url = place_of(self._inventory, kind, name)
        around = Surroundings(
            topology=self.topology_path,
            wallet_url=self.wallet_url,
            memcached=memcached_of(self._inventory, name),
            archive=self._inventory.archive,
            data=self._source,
            sets=[name for name in self._inventory.clusters if name != WALLET],
            dsn=self.dsn,
            certificates=self.certificates if urlsplit(self.wallet_url).scheme == "https" else None,
        )
        return settings_of(kind, name or kind, around, self._secrets, set_name), urlsplit(url).netloc

    def servers(self) -> list[str]:
        """Return the database servers by name: the SETs, and "wallet"."""
        return list(self._inventory.clusters)

    def set_dsn(self, name: str, role: str = roles.AUDIT) -> str:
        """Return a role's DSN of one SET's database (or the wallet's); raises Refused `unknown_set`."""
        return self.dsn(name, role)

    def superuser_dsn(self, server: str) -> str:
        """Return the superuser's DSN of one database server (a SET's, or "wallet"): for backups and moves."""
        return self.dsn(server, SUPERUSER)

    def dsn(self, server: str, role: str) -> str:
        """Return a role's DSN of one database server, with its password; raises Refused `unknown_set`, `no_dsn`.

        And `secret_missing`, if it is elsewhere and not there; `dsn_invalid`, if what is there is none.
        """
        clusters = self._inventory.clusters
        if server not in clusters:
            raise Refused("unknown_set", f"there is no SET {server!r}; there are {', '.join(clusters)}")
        named = clusters[server].dsns.get(role)
        if named is None:
            raise Refused("no_dsn", f"the inventory names no DSN of {server} for the role {role}; add it there")
        what = f"the DSN of {server} for the role {role}"
        dsn = named if isinstance(named, str) else named.read(what)
        if wrong := wrong_dsn(dsn):
            where = "" if isinstance(named, str) else f" in {named}"
            raise Refused("dsn_invalid", f"{what}{where} {wrong}")
        return dsn if password_of(dsn) is not None else with_login(dsn, role, self.passwords(server)[role])

    def passwords(self, server: str) -> dict[str, str]:
        """Return one database server's passwords by role; raises Refused `secrets_missing` if the file has none."""
        if not self._secrets.has_passwords(server):
            raise Refused(
                "secrets_missing",
                f"{self._secrets.path} has no passwords of {server}; bring the file back from where the backups are. "
                "A SET that is new is written by `hongbao installation add`, which makes them",
            )
        return self._secrets.passwords(server)

    @contextlib.asynccontextmanager
    async def wallet(self, set_name: str = "") -> AsyncIterator[WalletClient]:
        """Yield a client connected to the wallet; raises Unavailable `wallet_away`, Refused `link_refused`.

        With the operator's key, or with that of a SET, which may take and pay the money of its own envelopes.
        """
        key = self._secrets.link_key(SETNODE, set_name) if set_name else self.operator_key()
        secure = urlsplit(self.wallet_url).scheme == "https"
        link = Link("wallet", self.wallet_url, key=key, tls=self.tls if secure else None)
        keeping = asyncio.ensure_future(link.maintain())
        try:
            try:
                async with asyncio.timeout(CONNECT_S):
                    while not link.up:
                        if link.refusal:
                            raise Refused("link_refused", link.refusal)
                        await asyncio.sleep(0.01)
            except TimeoutError:
                text = f"the wallet does not answer at {self._inventory.wallet_url}; is it up? See ./run status"
                raise Unavailable("wallet_away", text) from None
            yield WalletClient(link)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})

    async def audit(
        self,
        progress: Callable[[str, int], None] = lambda *_: None,
        instead: Mapping[str, str] | None = None,
        only: date | None = None,
        *,
        provider: bool = False,
        full: bool = False,
    ) -> Report:
        """Audit all SETs and the wallet as the audit role.

        `instead`: other DSNs by server, of restored copies, which are read whole. `only`, `provider`: as in
        `audit.proof`. Days that were proven before are compared by their digests, unless `full`. Raises as that, and
        Unavailable `user_being_forgotten` if it does not hold while names are being replaced.
        """
        dsns = {name: self.dsn(name, roles.AUDIT) for name in self._inventory.clusters} | dict(instead or {})
        archive = self.archive()
        proofs = None if instead else Proofs(self._secrets.path.with_name(PROOFS), archive.key, full=full)

        async def once(topology: Topology) -> Report:
            targets = [_target(topology, one.name, dsns[one.name]) for one in topology.sets]
            return await audit(
                targets, dsns["wallet"], progress, archive=archive, only=only, provider=provider, proofs=proofs,
                ahead_s=ahead_ms(self.clock) / 1000,
            )  # fmt: skip

        return await audit_until_still(once, self.topology, dsns["wallet"])

    def audit_target(self, set_name: str) -> AuditTarget:
        """Return a SET as the audit reads it; raises Refused `unknown_set`."""
        return _target(self.topology(), set_name, self.dsn(set_name, roles.AUDIT))

    def archive(self) -> Archive:
        """Return the archive's folder, or its place in an object store, and key.

        Raises Refused `archive_key_differs` if our key is not the one with which the servers were started: they
        would reject manifests that we sign, and we theirs.
        """
        key = self._secrets.key("ARCHIVE_KEY").encode()
        if self._inventory.archive_key not in ("", fingerprint(key)):
            raise Refused(
                "archive_key_differs",
                "the servers here were started with another HONGBAO_ARCHIVE_KEY; set it as it was then (or unset it), "
                "and try again",
            )
        return Archive(root_of(self._inventory.archive), key)


def _target(topology: Topology, name: str, dsn: str) -> AuditTarget:
    return AuditTarget(name, dsn, _slots(topology, name), partial(_slots, topology, name))


def _slots(topology: Topology, name: str, day: date | None = None) -> list[int]:
    held = topology.databases_of(name, day)
    return [slot for xx in held for slot in slots_of(xx)]
