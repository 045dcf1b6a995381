"""What an operator may do at the page: drain and pause, and switches. Each is what the command of that name does.

An action says which state is wanted, so doing it again changes nothing; besides, it has an ID, and one that arrives
again (a double click, a retry of a lost answer, also after others were done) is answered from the journal. Its second
question is the target's name, typed once more.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import aiohttp
import msgspec

from errors import HongbaoError, Refused
from inspection.switch_effect import Effect, effect
from installation.access import Access
from moving.servers import all_follow
from ops.journal import Done, Journal
from ops.limits import ACTION_ID, ASK_S, FOLLOW_S
from ops.sessions import Who
from published.switching import not_reached
from runtime import logs
from runtime.tls import Tls
from runtime.tls import session as session_of
from sharding.topology import Topology
from sharding.topology.changes import drained, paused
from switches.switch import LONGEST, Switch, check, read_name

_log = logs.get("ops")


class Do(StrEnum):
    """The actions. Their targets: a server, a SET, a switch (`creates:set-1`)."""

    DRAIN = "drain"
    UNDRAIN = "undrain"
    PAUSE = "pause"
    RESUME = "resume"
    SWITCH_ON = "switch_on"
    SWITCH_OFF = "switch_off"


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. `minutes`: of a switch that is put on."""

    id: Annotated[str, msgspec.Meta(pattern=ACTION_ID)]
    do: Do
    target: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    confirm: Annotated[str, msgspec.Meta(max_length=80)] = ""
    reason: Annotated[str, msgspec.Meta(max_length=200)] = ""
    minutes: Annotated[int, msgspec.Meta(ge=1, le=int(LONGEST.total_seconds() // 60))] = 60


class Actions:
    """Does one action at a time."""

    def __init__(self, access: Access, journal: Journal) -> None:
        self._access = access
        self._journal = journal
        self._one = asyncio.Lock()

    async def do(self, action: Action, who: Who) -> Done:
        """Do it, or return what became of it before.

        Raises Refused (`confirmation_missing`, `reason_missing`, `action_id_reused`, `unknown_server`, `unknown_set`,
        `unknown_switch`, `switch_invalid`, `topology_invalid`) and Unavailable (`changed_meanwhile`);
        nothing is changed then. Unavailable `not_published` and `not_kept` say what may have been.
        """
        if action.confirm != action.target:
            raise Refused("confirmation_missing", f"type {action.target} to confirm; nothing was changed")
        if not action.reason.strip() or not action.reason.isprintable():
            raise Refused("reason_missing", "say why, in one line: others will read it; nothing was changed")
        # A page that is closed does not end what has begun.
        return await asyncio.shield(self._do(action, who))

    async def preview(self, name: str) -> Effect:
        """Return whom a switch would hit; raises Refused `unknown_switch`, `switch_invalid`, `unknown_set`."""
        now = self._access.clock.now()
        closes, where = read_name(name)
        one = Switch(closes=closes, where=where, owner="-", reason="-", since=now, until=now + timedelta(hours=1))
        check(one, self._access.topology(), now)
        return await effect(self._access, one)

    async def _do(self, action: Action, who: Who) -> Done:
        async with self._one:
            if (before := self._journal.find(action.id)) is not None:
                if (before.do, before.target) != (action.do, action.target):
                    raise Refused("action_id_reused", f"the ID {action.id} was used for {before.do} {before.target}")
                return before
            changed, followed, detail = await self._act(action, who)
            done = Done(
                id=action.id, at=datetime.now(UTC).isoformat(timespec="seconds"), who=who.name, do=action.do.value,
                target=action.target, reason=action.reason.strip(), changed=changed, followed=followed, detail=detail,
            )  # fmt: skip
            _log.warning("an operator's action", **msgspec.to_builtins(done))
            return await asyncio.to_thread(self._journal.add, done)

    async def _act(self, action: Action, who: Who) -> tuple[bool, bool, str]:
        target = action.target
        match action.do:
            case Do.DRAIN | Do.UNDRAIN:
                away = action.do is Do.DRAIN
                return await self._change_topology(lambda old: drained(old, target, away=away), _set_of(target))
            case Do.PAUSE | Do.RESUME:
                on = action.do is Do.PAUSE
                return await self._change_topology(lambda old: paused(old, target, on=on), lambda _: target)
            case Do.SWITCH_ON:
                return await self._switch_on(action, who)
            case Do.SWITCH_OFF:
                return await self._switch_off(target)

    async def _change_topology(
        self, how: Callable[[Topology], Topology], set_of: Callable[[Topology], str]
    ) -> tuple[bool, bool, str]:
        """Change the file, and say whether the SET's servers go by it; returns (changed, followed, sentence)."""
        changed = False

        def changing(old: Topology) -> Topology:
            nonlocal changed
            new = how(old)
            changed = new is not old
            return new

        new = await self._access.publisher().change_topology(changing)
        name = set_of(new)
        silent = await _silent(new, name, self._access.tls)
        servers = [server.name for one in new.sets if one.name == name for server in one.servers]
        if len(silent) == len(servers):
            return changed, False, f"{name} is away: none of its servers answers; they read it when they start"
        try:
            await all_follow(new, name, patience_s=FOLLOW_S, tls=self._access.tls)
        except HongbaoError as error:
            return changed, False, error.detail
        if silent:
            return changed, True, f"{', '.join(silent)} does not answer, and reads it at its start; the others go by it"
        return changed, True, ""

    async def _switch_on(self, action: Action, who: Who) -> tuple[bool, bool, str]:
        now = self._access.clock.now().replace(microsecond=0)
        closes, where = read_name(action.target)
        until = now + timedelta(minutes=action.minutes)
        one = Switch(closes=closes, where=where, owner=who.name, reason=action.reason.strip(), since=now, until=until)
        check(one, self._access.topology(), now)
        publisher = self._access.publisher()
        await publisher.change_switches(lambda old: [*(was for was in old if was.name != one.name), one], now)
        closed = f"closed until {until.isoformat(timespec='seconds')}"
        if publisher.behind:
            return True, False, f"{closed}; {not_reached(publisher.behind)}"
        return True, True, f"{closed}; every process goes by it within a second"

    async def _switch_off(self, target: str) -> tuple[bool, bool, str]:
        closes, where = read_name(target)
        wanted = f"{closes}:{where}" if where else closes.value
        was_on = False

        def without(old: list[Switch]) -> list[Switch]:
            nonlocal was_on
            was_on = any(one.name == wanted for one in old)
            return [one for one in old if one.name != wanted]

        publisher = self._access.publisher()
        await publisher.change_switches(without, self._access.clock.now())
        said = ("" if was_on else f"{wanted} was not closed", not_reached(publisher.behind))
        return was_on, not publisher.behind, "; ".join(filter(None, said))


def _set_of(server: str) -> Callable[[Topology], str]:
    return lambda topology: next(one.name for one in topology.sets if server in one.server_names)


async def _silent(topology: Topology, set_name: str, tls: Tls | None) -> list[str]:
    """Return the servers of a SET that do not answer."""
    servers = [server for one in topology.sets if one.name == set_name for server in one.servers]
    async with session_of(tls, timeout=aiohttp.ClientTimeout(total=ASK_S)) as session:
        answers = await asyncio.gather(*(_answers(session, one.url) for one in servers))
    return [one.name for one, answers_ in zip(servers, answers, strict=True) if not answers_]


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url.rstrip('/')}/healthz") as answer:
            return answer.status < 500  # noqa: PLR2004 - HTTP's own line
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
