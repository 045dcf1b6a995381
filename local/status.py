"""The status of an installation: which parts answer, what is out of service, how many days ahead have tables."""

import asyncio

import msgspec

from errors import HongbaoError
from installation.access import Access
from installation.data_folder import DataFolder
from installation.parts import postgres_part
from local import clock_move, running
from local.named_parts import named_parts
from local.running import Running, RunningPart
from local.service import probe_ready
from local.stable_ports import MEMCACHED
from machine.memcached import responds
from runtime import postgres
from runtime.dsn import at_host
from runtime.sandbox_clock import SandboxClock
from schema.day_tables import days_ahead, known_days
from sharding.topology import SetSpec

ASK_S = 2.0
"""A part on this machine answers in milliseconds."""


class PartStatus(msgspec.Struct, frozen=True):
    """One part. `answers`: whether it is ready; `detail`: the reason if it is not.

    `pid` 0 and `since` "": `./run` has not started it.
    """

    name: str
    address: str
    pid: int
    since: str
    restarts: int
    answers: bool
    detail: str = ""


class SetStatus(msgspec.Struct, frozen=True):
    """One SET. `days_ahead`: days after today that have tables; -1 if today has none, None if Postgres is away."""

    name: str
    paused: bool
    drained: list[str]
    days_ahead: int | None


class Status(msgspec.Struct, frozen=True):
    """A whole installation. `pid`: the process that supervises the parts, 0 if none here does.

    `sandbox_now`: "" but in a sandbox.
    """

    pid: int
    since: str
    gateway_url: str
    parts: list[PartStatus]
    sets: list[SetStatus]
    sandbox_now: str = ""

    @property
    def up(self) -> bool:
        """Whether every part answers."""
        return all(part.answers for part in self.parts)


async def status(folder: DataFolder, access: Access) -> Status:
    """Probe all parts at once: those that `./run` has started, else all that the installation names.

    Raises Refused `not_up` if `./run` starts them and nothing runs on the data folder.
    """
    found = running.load(folder.running) if access.runner else await named_parts(access)
    parts = await part_statuses(found, access)
    sets = await asyncio.gather(*(_set(one, access) for one in access.topology().sets))
    there = clock_move.show(access).now if isinstance(access.clock, SandboxClock) else ""
    return Status(found.pid, found.since, access.gateway_url, parts, list(sets), there)


async def part_statuses(found: Running, access: Access) -> list[PartStatus]:
    """Probe the parts of a stack at once, each for ASK_S at most."""
    databases = {postgres_part(name): name for name in access.servers()}
    return await asyncio.gather(*(_part(one, access, databases.get(one.name.partition("@")[0])) for one in found.parts))


async def _part(part: RunningPart, access: Access, database: str | None) -> PartStatus:
    if database is not None:
        detail = await database_problem(access, database, member=part.address if "@" in part.name else "")
    elif part.name.partition("@")[0] == MEMCACHED:
        detail = await _memcached_problem(part.address)
    else:
        host, _, port = part.address.rpartition(":")
        tls = access.tls if part.certified or access.is_secure(part.address) else None
        answer = await probe_ready(host, int(port), tls, part.certified)
        detail = "" if answer.startswith("200") else answer
    return PartStatus(part.name, part.address, part.pid, part.since, part.restarts, not detail, detail)


async def database_problem(access: Access, server: str, *, member: str = "") -> str:
    """Return why a database server does not answer within ASK_S, "" if it does.

    `member`: HOST:PORT of one of several, which may be a standby.
    """
    dsn = access.set_dsn(server)
    try:
        async with asyncio.timeout(ASK_S), postgres.connected(at_host(dsn, member) if member else dsn):
            return ""
    except TimeoutError:
        return "no answer"
    except HongbaoError as error:
        return error.detail


async def _memcached_problem(address: str) -> str:
    return "" if await responds(address) else "no answer"


async def _set(one: SetSpec, access: Access) -> SetStatus:
    return SetStatus(one.name, one.paused, list(one.drained), await _days_ahead(one.name, access))


async def _days_ahead(set_name: str, access: Access) -> int | None:
    try:
        async with asyncio.timeout(ASK_S), postgres.connected(access.set_dsn(set_name)) as connection:
            return days_ahead(await known_days(connection), access.today())
    except (HongbaoError, TimeoutError):
        return None
