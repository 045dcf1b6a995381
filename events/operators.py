"""What operators do to sinks, in all SETs of an installation: what the command `events` and other tools call.

A sink is the same in every SET. If a SET is away nothing is begun; if one goes away half way, Unavailable says that the
SETs may differ, and `hongbao events` shows where: the same call again completes it, and `resume` an `add`.
"""

import asyncio
import contextlib
import difflib
import itertools
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from errors import Refused
from events import register, retries, wake
from events.limits import MAX_BATCH, MAX_SECRETS, MAX_SINKS
from events.register import Kind, Sink, State, Target, new_secret
from events.retries import DeadLetter, Redriven
from events.service import sender_of
from events.webhook.addresses import check_public
from events.webhook.signing import key_of
from installation.access import Access
from runtime import postgres
from runtime.postgres import Connection
from schema import roles
from wire.cloud_events import TYPES

ADDRESS_CHARS = 2_000
"""As the schema says."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class SetSinks(NamedTuple):
    """The sinks of one SET."""

    set_name: str
    sinks: list[Sink]


@contextlib.asynccontextmanager
async def all_sets(access: Access) -> AsyncIterator[dict[str, Connection]]:
    """Yield a connection to every SET; raises Unavailable if one is away, or goes away in the block."""
    async with contextlib.AsyncExitStack() as exits:
        names = [one.name for one in access.topology().sets]
        opened = [postgres.connected(access.set_dsn(name, roles.EVENTS)) for name in names]
        connections = [await exits.enter_async_context(one) for one in opened]
        with postgres.loss_told("meanwhile; hongbao events says whether the SETs differ"):
            yield dict(zip(names, connections, strict=True))


async def sinks(access: Access) -> list[SetSinks]:
    """Return the sinks of every SET."""
    async with all_sets(access) as sets:
        return [SetSinks(name, await register.list_sinks(connection)) for name, connection in sets.items()]


async def add(access: Access, target: Target) -> Target:
    """Add a sink to all SETs; returns it with its secret. It receives what is committed from now on.

    Raises Refused `sink_name_invalid`, `address_invalid`, `unknown_event`, `batch_invalid`, `too_many_sinks`,
    `sink_exists`, and what `events.service.sender_of` does; then nothing was changed.
    """
    target = _checked(target)
    await sender_of(target).close()
    if target.kind == Kind.WEBHOOK and not target.private_addresses:
        await check_public(urlsplit(target.address).hostname or "")
    async with all_sets(access) as sets:
        known = {name: await register.list_sinks(connection) for name, connection in sets.items()}
        if any(len(one) >= MAX_SINKS for one in known.values()):
            raise Refused("too_many_sinks", f"there are {MAX_SINKS} sinks already; remove one")
        if any(target.name == one.target.name for found in known.values() for one in found):
            raise _exists(target.name)
        for connection in sets.values():
            # Of two operators at the same time the first SET takes one.
            if not await register.add(connection, target):
                raise _exists(target.name)
    return target


async def remove(access: Access, name: str) -> None:
    """Remove a sink from all SETs, with its dead letters; raises Refused `unknown_sink`."""
    async with _sink(access, name) as (sets, _):
        for connection in sets.values():
            await register.remove(connection, name)


async def pause(access: Access, name: str, reason: str) -> None:
    """Stop a sink; what it misses meanwhile is kept for seven days. Raises Refused `unknown_sink`."""
    async with _sink(access, name) as (sets, _):
        for connection in sets.values():
            await register.set_state(connection, name, State.PAUSED, reason)


async def resume(access: Access, name: str) -> None:
    """Let a sink go on where it was, and add it to SETs that lack it; raises Refused `unknown_sink`.

    It need not be paused or disabled: its receiver is asked at once, whatever it said before, also of events that are
    retried apart. What a sink has lost was noted by the operator, and is shown no more.
    """
    async with _sink(access, name) as (sets, target):
        for connection in sets.values():
            if not await register.set_state(connection, name, State.ACTIVE):
                await register.add(connection, target)


async def new_secret_of(access: Access, name: str, keep_old: timedelta) -> str:
    """Give a webhook a new secret, and return it; those that sign now sign too for `keep_old`.

    So also if it is called twice: nobody may have got the first one. Raises Refused `unknown_sink`, `not_signed`.
    """
    async with _sink(access, name) as (sets, target):
        if target.kind != Kind.WEBHOOK:
            raise Refused("not_signed", f"{name} is no webhook: nothing is signed for it")
        now = datetime.now(UTC)
        until = target.old_secrets_until
        keys = [new_secret(), *(target.secrets if until and now < until else target.secrets[:1])][:MAX_SECRETS]
        for connection in sets.values():
            await register.set_secrets(connection, name, keys, now + keep_old)
    return keys[0]


async def dead(access: Access, name: str | None, limit: int) -> list[tuple[str, DeadLetter]]:
    """Return dead letters with their SETs, the oldest of each SET first; raises Refused `unknown_sink`."""
    async with all_sets(access) as sets:
        if name is not None:
            await _find(sets, name)
        return [
            (set_name, letter)
            for set_name, connection in sets.items()
            for letter in await retries.dead_letters(connection, name, limit)
        ]


async def redrive(access: Access, name: str, event_ids: Sequence[str] | None) -> Redriven:
    """Have dead letters of a sink, and events that are retried (None: all), sent now; returns which.

    The receiver is asked at once, also if it fails. Raises Refused `unknown_sink`.
    """
    async with _sink(access, name) as (sets, _):
        ids = None if event_ids is None else list(event_ids)
        found = [await retries.redrive(connection, name, ids) for connection in sets.values()]
        await _wake(sets, name)
    dead, retried, waiting = (list(itertools.chain.from_iterable(of_sets)) for of_sets in zip(*found, strict=True))
    return Redriven(dead, retried, waiting)


async def of_name(access: Access, name: str) -> list[Sink]:
    """Return a sink as each SET has it that does not lack it; raises Refused `unknown_sink`."""
    found = [one for of_set in await sinks(access) for one in of_set.sinks]
    if not (same := [one for one in found if one.target.name == name]):
        raise _unknown(name, dict.fromkeys(one.target.name for one in found))
    return same


async def wake_up(access: Access, name: str) -> None:
    """End every pause of a sink: its receiver is back. Raises Refused `unknown_sink`."""
    async with _sink(access, name) as (sets, _):
        await _wake(sets, name)


async def drop(access: Access, name: str, event_ids: Sequence[str]) -> list[str]:
    """Delete dead letters of a sink; returns which. Raises Refused `unknown_sink`."""
    async with _sink(access, name) as (sets, _):
        return [one for connection in sets.values() for one in await retries.drop(connection, name, list(event_ids))]


def _checked(target: Target) -> Target:
    """Return what is to be added, with its secret, or raise Refused."""
    if not _NAME.fullmatch(target.name):
        raise Refused(
            "sink_name_invalid", f"{target.name[:50]!r} is no name: lower-case letters, digits and -, 40 at most"
        )
    if len(target.address) > ADDRESS_CHARS:
        raise Refused("address_invalid", f"an address has {ADDRESS_CHARS:,} characters at most")
    if wrong := [one for one in target.types if one not in TYPES]:
        near = difflib.get_close_matches(wrong[0], TYPES, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(TYPES)}"
        raise Refused("unknown_event", f"there is no event {wrong[0]!r}; {meant}")
    if not 1 <= target.batch <= MAX_BATCH:
        raise Refused("batch_invalid", f"a call takes 1 to {MAX_BATCH} events, not {target.batch}")
    if target.kind == Kind.WEBHOOK:
        target = target._replace(secrets=target.secrets or (new_secret(),))
        for one in target.secrets:
            key_of(one)
    return target


def _exists(name: str) -> Refused:
    return Refused("sink_exists", f"there is a sink {name} already; remove it, or take another name")


async def _wake(sets: dict[str, Connection], name: str) -> None:
    for connection in sets.values():
        await wake.wake(connection, name)


def _unknown(name: str, known: Iterable[str]) -> Refused:
    names = list(known)
    if not names:
        return Refused("unknown_sink", f"there is no sink {name[:50]!r}; add one: ./run events add NAME URL")
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return Refused("unknown_sink", f"there is no sink {name[:50]!r}, there are {', '.join(names)}{meant}")


@contextlib.asynccontextmanager
async def _sink(access: Access, name: str) -> AsyncIterator[tuple[dict[str, Connection], Target]]:
    async with all_sets(access) as sets:
        yield sets, await _find(sets, name)


async def _find(sets: dict[str, Connection], name: str) -> Target:
    """Return a sink that one of the SETs has; raises Refused `unknown_sink`."""
    found = await asyncio.gather(*(register.list_sinks(connection) for connection in sets.values()))
    known = {one.target.name: one.target for sinks in found for one in sinks}
    if name not in known:
        raise _unknown(name, known)
    return known[name]
