"""Answers for envelopes of days that have gone cold, beside the actors: nothing about them can change any more.

That a day is cold, and where its rows are, is the register's word (`archive.register`): its own tables until it is
dropped, the archive from then on. Open and grab hear `expired` by that word alone; detail and cancel read the log, once
for all who ask at the time, with a few threads for the archive, and keep the last ones.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import Any, NamedTuple

from archive.details import Details, Doubted
from archive.register import Register, Standing, mark, read_register
from envelope.claim_log import ClaimLog
from envelope.decide import EXPIRED, may_see
from envelope.errors import HongbaoError, InvariantBroken, Refused, Unavailable
from runtime import logs, metrics, postgres
from setnode.actors.doubt import unknown
from setnode.actors.request import Ask, Request
from setnode.actors.shown import ShownClaims
from setnode.actors.sight import cannot_cancel, hidden
from setnode.actors.stage import Stage
from setnode.actors.views import as_json, detail_view
from setnode.limits import COLD_DOUBTED, COLD_QUEUE, COLD_SHARES, COLD_THREADS, LOAD_PATIENCE_S, STALE_S
from setnode.wake.reading import query_of, restore
from sharding.ids import day_of, end_id, first_id, slot_of

_TURNS = 3
"""Looks at the register for one envelope: a day goes from its tables to the archive once."""
_NO_TABLE = "42P01"
_DAY = 10**13
"""IDs of one business day; what stands above it is YYMMDD. With the database behind it that is the key of `_cold`."""

_log = logs.get("setnode")
_reads = metrics.counter("hongbao_cold_reads_total", "Envelopes of cold days read, by where from", ("source",))
_missing = metrics.counter("hongbao_archive_unavailable_total", "Cold envelopes whose archive was missing or not true")


class _Kept(NamedTuple):
    log: ClaimLog
    shown: ShownClaims


class Cold:
    """`take` answers, now or later; `run` owns the workers. `details` None: this server was given no archive."""

    def __init__(self, session: postgres.Session, details: Details | None, stage: Stage) -> None:
        self._session = session
        self._details = details
        self._stage = stage
        self._cold: dict[int, Standing] = {}
        self._seen: str | None = None
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._weight = 0
        self._waiting: dict[int, list[Request]] = {}
        self._line: asyncio.Queue[int] = asyncio.Queue()
        self._doubted: asyncio.Queue[int] = asyncio.Queue(COLD_DOUBTED)
        self._reading = asyncio.Lock()
        self._pool = ThreadPoolExecutor(COLD_THREADS + 1, "archive")

    @property
    def idle(self) -> bool:
        """Whether nobody waits."""
        return not self._waiting

    def covers(self, envelope_id: int) -> bool:
        """Say whether the envelope's day is known to be cold; what is not known yet a look will tell."""
        return envelope_id // _DAY * 100 + envelope_id % 1000 // 10 in self._cold

    async def look(self, connection: Any, days: Collection[date] | None = None) -> bool:
        """Learn what the register says of `days`, or of all; returns whether a day was not known to be cold before.

        Of all days only what may have changed since the last such look is read.
        """
        if days is None:
            seen = await mark(connection)
            found: Register = await read_register(connection, since=self._seen)
            self._seen = seen
        else:
            found = await read_register(connection, days)
        cold = {first_id(day) // _DAY * 100 + xx: one for (day, xx), one in found.items() if one.cold}
        news = not cold.keys() <= self._cold.keys()
        self._cold.update(cold)
        return news

    def take(self, envelope_id: int, requests: Iterable[Request]) -> None:
        """Answer requests for an envelope of a day that is cold."""
        for request in requests:
            if request.ask is Ask.EXPIRE:
                request.fail(_not_found())  # `due` names it, and should not: expiry shouts
            elif request.unsettled:
                request.fail(unknown())
            elif request.ask in (Ask.OPEN, Ask.GRAB):
                request.answer(EXPIRED)
                self._stage.tally[EXPIRED.outcome.code] += 1
            elif envelope_id in self._kept:
                self._tell(request, self._kept[envelope_id])
            else:
                self._queue(envelope_id, request)

    async def run(self) -> None:
        """Read what is asked for until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(COLD_THREADS):
                    tasks.create_task(self._work())
                tasks.create_task(self._work_on_doubted())
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def find(self, envelope_id: int, *, believe: bool = True) -> ClaimLog | None:
        """Return the log of an envelope whose day is cold; None when the day is not, or has no such envelope.

        Raises Doubted, unless it may `believe`, where a whole archive would have to be read first; Unavailable
        `archive_unavailable` or `database_unavailable`, InvariantBroken.
        """
        before: Standing | None = None
        for _ in range(_TURNS):
            standing = self._standing(envelope_id)
            if standing is None or standing == before:
                await self._ask_the_register(envelope_id)
                standing = self._standing(envelope_id)
            if standing is None or standing == before:
                return None
            row = await self._read(envelope_id, standing, believe=believe)
            if row is not None:
                return self._restored(row)
            if standing.dropped:
                return None
            before = standing  # not in the tables: never was, or dropped a moment ago
        return None

    def _standing(self, envelope_id: int) -> Standing | None:
        return self._cold.get(envelope_id // _DAY * 100 + envelope_id % 1000 // 10)

    def _queue(self, envelope_id: int, request: Request) -> None:
        """Let a worker read the envelope, once for all who wait for it."""
        waiting = self._waiting.get(envelope_id)
        if waiting is not None:
            waiting.append(request)
        elif len(self._waiting) >= COLD_QUEUE:
            request.fail(_busy())
        else:
            self._waiting[envelope_id] = [request]
            self._line.put_nowait(envelope_id)

    async def _work(self) -> None:
        """Answer what can be answered at once; what needs a whole archive to be read first goes to a line of its own.

        Anybody may ask for made-up IDs of any day: that keeps nobody waiting whose archives are believed.
        """
        while True:
            envelope_id = await self._line.get()
            try:
                self._answer(envelope_id, await self._found(envelope_id, believe=False))
            except Doubted:
                try:
                    self._doubted.put_nowait(envelope_id)
                except asyncio.QueueFull:
                    self._answer(envelope_id, _busy())

    async def _work_on_doubted(self) -> None:
        while True:
            envelope_id = await self._doubted.get()
            self._answer(envelope_id, await self._found(envelope_id, believe=True))

    def _answer(self, envelope_id: int, found: _Kept | HongbaoError) -> None:
        for request in self._waiting.pop(envelope_id):
            self._tell(request, found)

    async def _found(self, envelope_id: int, *, believe: bool) -> _Kept | HongbaoError:
        stale = self._stage.loop_time() - STALE_S
        if all(request.arrived < stale for request in self._waiting[envelope_id]):
            return _busy()
        try:
            log = await self.find(envelope_id, believe=believe)
        except Doubted:
            raise
        except HongbaoError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whoever waits must hear something, and the worker goes on
            return _away(f"{type(error).__name__}: {error}")
        return _not_found() if log is None else self._keep(log)

    async def _read(self, envelope_id: int, standing: Standing, *, believe: bool) -> Any:
        """Return the row of an envelope, None where there is none."""
        if standing.dropped:
            return await self._from_archive(envelope_id, standing, believe=believe)
        day = day_of(envelope_id)
        args = [envelope_id], [slot_of(envelope_id)], first_id(day), end_id(day)
        try:
            rows: Sequence[Any] = await self._ask(lambda connection: connection.fetch(query_of(day), *args))
        except Exception as error:
            if getattr(error, "sqlstate", "") == _NO_TABLE:
                return None
            raise
        _reads.labels("tables").inc()
        return rows[0] if rows else None

    async def _from_archive(self, envelope_id: int, standing: Standing, *, believe: bool) -> Any:
        if self._details is None:
            raise _away("HONGBAO_ARCHIVE and HONGBAO_ARCHIVE_KEY are not set")
        loop = asyncio.get_running_loop()
        read = partial(self._details.read, envelope_id, standing.manifest_sha256, believe=believe)
        try:
            row = await loop.run_in_executor(self._pool, read)
        except Refused as refused:
            raise _away(refused.detail) from refused
        _reads.labels("archive").inc()
        return row

    async def _ask_the_register(self, envelope_id: int) -> None:
        day = day_of(envelope_id)
        await self._ask(lambda connection: self.look(connection, [day]))

    async def _ask(self, work: Any) -> Any:
        async with self._reading:
            return await self._session.patiently(work, LOAD_PATIENCE_S)

    def _restored(self, row: Any) -> ClaimLog:
        log = restore(row)
        if isinstance(log, InvariantBroken):
            _log.critical("a cold envelope does not add up", envelope_id=str(row["envelope_id"]), reason=log.detail)
            raise log
        return log

    def _keep(self, log: ClaimLog) -> _Kept:
        shown = ShownClaims(log)
        shown.catch_up()
        kept = _Kept(log, shown)
        self._kept[log.terms.envelope_id] = kept
        self._weight += log.terms.count
        while self._weight > COLD_SHARES and len(self._kept) > 1:
            self._weight -= self._kept.popitem(last=False)[1].log.terms.count
        return kept

    def _tell(self, request: Request, found: _Kept | HongbaoError) -> None:
        """Show the envelope to whoever may see it, or cancel as a closed one is canceled."""
        if isinstance(found, HongbaoError):
            request.fail(found)
            return
        log, shown = found
        self._kept.move_to_end(log.terms.envelope_id)
        refusal = cannot_cancel(log, request) if request.ask is Ask.CANCEL else None
        if refusal is None and not may_see(log, request.user, token_ok=request.token_ok):
            refusal = hidden()
        if refusal is not None:
            request.fail(refusal)
        else:
            view = {**detail_view(log, request.user, self._stage.now_ms(), shown), "archived": True}
            request.tell(as_json(view), request.user == log.terms.sender)


def _not_found() -> Refused:
    return Refused("not_found", "there is no such envelope")


def _busy() -> Unavailable:
    return Unavailable("busy", "too many old envelopes are being looked up; try again")


def _away(reason: str) -> Unavailable:
    _missing.inc()
    _log.error("a cold envelope cannot be read", reason=reason)
    return Unavailable(
        "archive_unavailable", "the archive of this day cannot be read just now; operators know, try again later"
    )
