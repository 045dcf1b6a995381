"""How commands reach a running stack: its addresses, keys, wallet and databases; or one started for them."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from archive.manifest import fingerprint
from archive.place import Archive
from audit.proof import AuditTarget, audit
from audit.report import Report
from cluster.assembly import record
from cluster.assembly.record import Record
from cluster.machine import datafolder
from cluster.machine.account import server_account
from cluster.machine.keys import Secrets
from cluster.pg import roles
from envelope.errors import Refused, Unavailable
from gateway.identity.tokens import make_token
from runtime.clock import SystemClock
from sharding.slots import slots_of
from sharding.topology import Topology, load
from wire.link import Link
from wire.wallet import WalletClient

CONNECT_S = 10.0
TOKEN_S = 3600


class Access:
    """A running stack as a command sees it."""

    def __init__(self, running: Record, secrets: Secrets) -> None:
        self._running = running
        self._secrets = secrets

    @property
    def gateway_url(self) -> str:
        """Where clients knock."""
        return self._running.gateway_url

    def topology(self) -> Topology:
        """Read which SET holds which database."""
        return load(self.topology_path)

    @property
    def topology_path(self) -> Path:
        """The file that says so."""
        return Path(self._running.topology)

    def wallet_dsn(self, role: str = roles.AUDIT) -> str:
        """Return a role's DSN of the wallet's database."""
        return self._running.postgres["wallet"][role]

    def token(self, user: str) -> str:
        """Make a bearer token for an hour."""
        return make_token(self._secrets.key("TOKEN_KEY"), user, ttl_s=TOKEN_S, clock=SystemClock())

    def token_environment(self) -> dict[str, str]:
        """Return the variable that lets a process of ours make bearer tokens for itself."""
        return {"HONGBAO_TOKEN_KEY": self._secrets.key("TOKEN_KEY")}

    def key(self, name: str) -> str:
        """Return one of the installation's keys."""
        return self._secrets.key(name)

    def link_headers(self) -> dict[str, str]:
        """Return what our own processes present to each other."""
        return {"Authorization": f"Link {self._secrets.key('LINK_KEY')}"}

    @staticmethod
    def order_no() -> str:
        """Make the order number of a deposit; a repeat of the command is another deposit."""
        return f"D{uuid.uuid4().hex}"

    def set_dsn(self, name: str, role: str = roles.AUDIT) -> str:
        """Return a role's DSN of one SET's database; raises Refused `unknown_set`."""
        if name not in self._running.postgres:
            raise Refused("unknown_set", f"there is no SET {name!r}; there are {', '.join(self._running.postgres)}")
        return self._running.postgres[name][role]

    def superuser_dsn(self, server: str) -> str:
        """Return the superuser's DSN of one database server (a SET's, or "wallet"): for backups and moves."""
        any_role = urlsplit(self.set_dsn(server))
        login = f"postgres:{quote(self.passwords(server)['postgres'], safe='')}"
        return urlunsplit(any_role._replace(netloc=f"{login}@{any_role.hostname}:{any_role.port}"))

    def passwords(self, server: str) -> dict[str, str]:
        """Return the passwords by role of one database server."""
        return self._secrets.passwords(server)

    @contextlib.asynccontextmanager
    async def wallet(self) -> AsyncIterator[WalletClient]:
        """Connect to the wallet."""
        link = Link("wallet", self._running.wallet_url, key=self._secrets.key("LINK_KEY"))
        keeping = asyncio.ensure_future(link.maintain())
        try:
            async with asyncio.timeout(CONNECT_S):
                while not link.up:
                    await asyncio.sleep(0.01)
            yield WalletClient(link)
        except TimeoutError:
            raise Unavailable("wallet_away", "the wallet does not answer; look at its log in the data folder") from None
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})

    async def audit(
        self, progress: Callable[[str, int], None] = lambda *_: None, instead: Mapping[str, str] | None = None
    ) -> Report:
        """Prove everything, with the auditor's own role; `instead` gives other DSNs (of restored copies) by server."""
        dsns = {name: by_role[roles.AUDIT] for name, by_role in self._running.postgres.items()} | dict(instead or {})
        while True:
            topology = self.topology()
            targets = [
                AuditTarget(one.name, dsns[one.name], _slots(topology, one.name), partial(_slots, topology, one.name))
                for one in topology.sets
            ]
            found = await audit(targets, dsns["wallet"], progress, archive=self.archive())
            # A database that moved between two SETs' snapshots was in both or in neither; that says nothing.
            if found.holds or self.topology().epoch_of == topology.epoch_of:
                return found

    def archive(self) -> Archive:
        """Return where archives lie, and their key.

        Raises Refused `archive_key_differs` where ours is not the one by which the running servers read them: what we
        wrote they could not believe, and what they can read would be forged to us.
        """
        key = self._secrets.key("ARCHIVE_KEY").encode()
        if self._running.archive_key not in ("", fingerprint(key)):
            raise Refused(
                "archive_key_differs",
                "what runs here reads the archive with another key; set HONGBAO_ARCHIVE_KEY as it was when that was "
                "started (or unset it), then try again",
            )
        return Archive(Path(self._running.archive), key)


def find(data: Path | None) -> Access:
    """Return the stack that runs on the data folder; raises Refused `not_up` when none does."""
    folder = datafolder.choose(data, server_account())
    return Access(record.load(folder.record), Secrets.load(folder.secrets))


@contextlib.asynccontextmanager
async def reach(data: Path | None) -> AsyncIterator[Access]:
    """Give the stack that runs on the data folder, or start one there (gateway on any free port) for the block."""
    try:
        found = find(data)
    except Refused as refusal:
        if refusal.code != "not_up":
            raise
        # Imported here: finding a running stack needs nothing of what starts one.
        from cluster.assembly.config import StackConfig  # noqa: PLC0415
        from cluster.assembly.stack import Stack  # noqa: PLC0415

        config = StackConfig(data=data, port=0)
        config.say("nothing runs here yet: starting everything for this command; the first time takes some seconds")
        async with Stack(config):
            config.say("up")
            yield find(data)
            config.say("stopping; all data is kept")
    else:
        yield found


def _slots(topology: Topology, name: str, day: date | None = None) -> list[int]:
    held = topology.databases_of(name, day)
    return [slot for xx in held for slot in slots_of(xx)]
