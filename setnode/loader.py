"""Wakes actors: reads headers and logs from Postgres, many envelopes of one slot and day in one query.

The read commits something itself before anybody is answered from it: on a server with synchronous replication a row
may be visible before it is replicated, and a replayed answer must be as durable as the first one was.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from envelope.claim_log import ClaimLog
from envelope.errors import HongbaoError, InvariantBroken, Unavailable
from runtime import logs, metrics, postgres
from schema.headers import read_terms
from setnode import queries
from setnode.actor import Actor
from setnode.limits import LOAD_BATCH, LOAD_PATIENCE_S, STALE_S
from setnode.stage import Phase
from sharding.ids import day_of, end_id, first_id

_LOAD = queries.read("load_envelopes")
_SEAL = "SELECT pg_logical_emit_message(true, 'hongbao', 'reload')"

_log = logs.get("setnode")
_loaded = metrics.counter("hongbao_actors_loaded_total", "Envelopes read from Postgres into memory")


class Loader:
    """One task that serves the actors waiting for their log; single-flight by construction (one actor per ID)."""

    def __init__(self, session: postgres.Session) -> None:
        self._session = session
        self._waiting: dict[int, Actor] = {}
        self._wanted = asyncio.Event()
        self.loads = 0

    def want(self, actor: Actor) -> None:
        """Put an actor on the list."""
        self._waiting[actor.envelope_id] = actor
        self._wanted.set()

    async def run(self) -> None:
        """Serve until cancelled. While Postgres is away actors keep waiting, requests as long as their callers."""
        attempt = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            actors, self._waiting = list(self._waiting.values()), {}
            for (slot, day), group in _by_leaf(actors).items():
                for start in range(0, len(group), LOAD_BATCH):
                    chunk = group[start : start + LOAD_BATCH]
                    try:
                        await self._serve(slot, day, chunk)
                        attempt = 0
                    except Exception as error:  # noqa: BLE001 - whatever it was, the actors must not wait for ever
                        self._put_back(chunk, error)
                        attempt += 1
                        await postgres.pause(attempt, most_s=0.5)

    async def _serve(self, slot: int, day: date, actors: Sequence[Actor]) -> None:
        ids = [actor.envelope_id for actor in actors]
        logs_by_id = await self._session.patiently(
            lambda connection: fetch_logs(connection, slot, day, ids), LOAD_PATIENCE_S
        )
        for actor in actors:
            found = logs_by_id.get(actor.envelope_id)
            if found is None:
                actor.not_found()
                actor.stage.forget(actor)
            elif isinstance(found, InvariantBroken):
                actor.freeze(found)
            else:
                self.loads += 1
                _loaded.inc()
                actor.loaded(found)

    def _put_back(self, actors: Iterable[Actor], error: Exception) -> None:
        """Keep those whose callers still wait for the next turn; tell the others that the database is away."""
        self._session.drop()
        _log.warning("loading failed", error=f"{type(error).__name__}: {error}")
        away = Unavailable("database_unavailable", "the database does not answer; try again shortly")
        for actor in actors:
            if actor.phase is not Phase.LOADING:
                continue
            if actor.oldest > asyncio.get_running_loop().time() - STALE_S:
                self.want(actor)
            else:
                actor.refuse(away)
                actor.stage.forget(actor)


async def fetch_logs(
    connection: Any, slot: int, day: date, envelope_ids: Sequence[int]
) -> dict[int, ClaimLog | InvariantBroken]:
    """Read the logs of envelopes of one slot and day, sealed by a commit; a broken one comes as its error."""
    async with connection.transaction():
        rows = await connection.fetch(_LOAD, envelope_ids, slot, first_id(day), end_id(day))
        await connection.execute(_SEAL)
    return {row["envelope_id"]: _restore(row) for row in rows}


def _restore(row: Any) -> ClaimLog | InvariantBroken:
    try:
        log = ClaimLog(read_terms(row, _invited(row)))
        columns = [row[name] or () for name in ("seqs", "kinds", "users", "amounts", "times")]
        log.restore(zip(*columns, strict=True))
    except InvariantBroken as broken:
        return broken
    except (HongbaoError, ValueError) as error:
        # One header that nobody can read must not keep its neighbours in the same query from being read.
        return InvariantBroken("header_is_readable", f"envelope {row['envelope_id']}: {error}")
    tries = {user: count for user, count in zip(row["guests"] or (), row["tries"] or (), strict=True) if count}
    log.wrong_tries = tries or None
    return log


def _invited(row: Any) -> frozenset[str] | None:
    if not row["named"]:
        return None
    guests = zip(row["guests"] or (), row["invitations"] or (), strict=True)
    return frozenset(user for user, is_invited in guests if is_invited)


def _by_leaf(actors: Iterable[Actor]) -> dict[tuple[int, date], list[Actor]]:
    groups: dict[tuple[int, date], list[Actor]] = defaultdict(list)
    for actor in actors:
        try:
            groups[actor.envelope_id % 1000, day_of(actor.envelope_id)].append(actor)
        except ValueError:  # a day that never was: no such envelope, and no reason to keep others waiting
            actor.not_found()
            actor.stage.forget(actor)
    return groups
