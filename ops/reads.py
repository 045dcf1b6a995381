"""Lists that are read when a page asks for them: calendar, statements, hot envelopes, stuck payouts, moves.

Each is read once for all who ask within FRESH_S. A database or server that is away does not hide the others: its entry
says why.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import msgspec

from errors import HongbaoError, Unavailable
from inspection.calendar import calendar
from inspection.hot import hottest
from inspection.slow import slow_statements
from installation.access import Access
from moving.context import context_of
from moving.journal import open_moves
from ops.limits import FRESH_S, HOT_SHOWN, READ_S
from runtime import postgres
from setnode.services.payouts.stuck import stuck_payouts
from sharding.slots import database_name

Read = Callable[[], Awaitable[dict[str, Any]]]


class Lists:
    """The lists by name."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._reads: dict[str, Read] = {
            "databases": self._databases,
            "calendar": self._calendar,
            "statements": self._statements,
            "hot": self._hot,
            "stuck": self._stuck,
        }
        self._kept: dict[str, tuple[float, dict[str, Any]]] = {}
        self._locks = {name: asyncio.Lock() for name in self._reads}

    @property
    def names(self) -> list[str]:
        """What there is."""
        return list(self._reads)

    async def read(self, name: str) -> dict[str, Any]:
        """Return a list, at most FRESH_S old; raises Unavailable `slow_read`, and what the reading raises."""
        async with self._locks[name]:
            at, known = self._kept.get(name, (float("-inf"), {}))
            if time.monotonic() - at < FRESH_S:
                return known
            try:
                async with asyncio.timeout(READ_S):
                    found = await self._reads[name]()
            except TimeoutError:
                raise Unavailable("slow_read", f"this was not read within {READ_S:g} s; ask again") from None
            self._kept[name] = time.monotonic(), found
            return found

    async def _databases(self) -> dict[str, Any]:
        topology, today = self._access.topology(), self._access.today()
        journals = await open_moves(context_of(self._access))
        moving = {one.route.name: one for one in journals.moves}
        rows = []
        for xx in range(topology.layout.databases):
            name = database_name(xx)
            move = moving.get(name)
            rows.append(
                {
                    "name": name,
                    "set": topology.set_for_database(xx, today).name,
                    "next_set": topology.set_for_database(xx).name,
                    "epoch": topology.epoch_of[xx],
                    "held": name in topology.held,
                    "since": [{"day": str(one.valid_from), "set": one.to} for one in topology.moves.get(name, ())],
                    "move": None if move is None else {"to": move.route.target, "kind": move.kind, "step": move.step},
                }
            )
        return {"databases": rows, "away": sorted(journals.away)}

    async def _calendar(self) -> dict[str, Any]:
        today = self._access.today()
        names = [one.name for one in self._access.topology().sets]
        found, away = await self._of_each(names, lambda name: calendar(name, self._access.set_dsn(name), today))
        return {
            "today": str(today),
            "sets": {name: msgspec.to_builtins(days) for name, days in found.items()},
            "away": away,
        }

    async def _statements(self) -> dict[str, Any]:
        names = self._access.servers()
        found, away = await self._of_each(names, lambda name: slow_statements(name, self._access.set_dsn(name)))
        return {"servers": [msgspec.to_builtins(one) for one in found.values()], "away": away}

    async def _hot(self) -> dict[str, Any]:
        topology = self._access.topology()
        names = [server.name for one in topology.sets for server in one.servers]
        found, away = await self._of_each(names, lambda name: hottest(self._access, HOT_SHOWN, only=name))
        rows = [one for some in found.values() for one in some]
        rows.sort(key=lambda one: (-one.opened - one.waiting, one.envelope_id))
        return {"hot": msgspec.to_builtins(rows[: 2 * HOT_SHOWN]), "away": away}

    async def _stuck(self) -> dict[str, Any]:
        async def of(name: str) -> list[dict[str, Any]]:
            async with postgres.connected(self._access.set_dsn(name)) as connection:
                return [_stuck_row(name, one) for one in await stuck_payouts(connection)]

        found, away = await self._of_each([one.name for one in self._access.topology().sets], of)
        return {"stuck": [row for rows in found.values() for row in rows], "away": away}

    @staticmethod
    async def _of_each(
        names: list[str], read: Callable[[str], Awaitable[Any]]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Read from each; returns what was read, and why the others could not be, by name."""

        async def one(name: str) -> Any:
            try:
                return await read(name)
            except HongbaoError as error:
                return error
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                return Unavailable("slow_read", f"{name}: {error or type(error).__name__}")

        answers = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
        away = {name: answer.detail for name, answer in answers.items() if isinstance(answer, HongbaoError)}
        return {name: answer for name, answer in answers.items() if name not in away}, away


def _stuck_row(set_name: str, one: Any) -> dict[str, Any]:
    return {
        "set": set_name,
        "envelope_id": str(one.envelope_id),
        "seq": one.seq,
        "receiver": one.receiver,
        "amount_fen": one.amount_fen,
        "attempts": one.attempts,
        "stuck_at": one.stuck_at.isoformat(),
        "reason": one.reason,
    }
