"""Answers for envelopes of cold days, without actors: nothing about them can change any more, but names.

The day register (`archive.register`) says that a day is cold and where its rows are: in the day's own tables until they
are dropped, then in the archive. Open and grab get `expired` by the register alone; detail, cancel and cards need the
log, which is read once for all requests that wait for it. The most recently used logs are kept, until a user in them is
forgotten (`users`): that is told as any write that is not the server's own (`setnode.commit.invalidation`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import Any, NamedTuple

from archive.details import Details, NotVerifiedYet
from archive.register import Register, RegisterEntry, read_register, watermark
from envelope.claim_log import ClaimLog
from envelope.decide import EXPIRED, may_see
from envelope.outcomes import not_found
from errors import HongbaoError, InvariantBroken, Refused, Unavailable
from runtime import logs, metrics, postgres
from setnode.activation.log_rows import ALL_SHARES, query_of, restore
from setnode.actors.access import cancel_refusal, not_invited
from setnode.actors.actor import Actor
from setnode.actors.context import ActorContext
from setnode.actors.request import Action, Request
from setnode.actors.unknown_outcome import outcome_unknown
from setnode.limits import (
    CARDS_S,
    COLD_CARDS,
    COLD_LOOKS,
    COLD_QUEUE,
    COLD_SHARES,
    COLD_THREADS,
    COLD_UNVERIFIED,
    LOAD_DEADLINE_S,
    MAILBOX,
    STALE_S,
)
from setnode.views.card_json import card_of_log
from setnode.views.claims_json import ClaimsJson
from setnode.views.envelope_json import as_json, detail_view, is_known, version_of
from setnode.views.live_json import live_frame
from sharding.ids import database_for, day_of, end_id, first_id, slot_of, yymmdd, yymmdd_of

_NO_TABLE = "42P01"

_log = logs.get("setnode")
_reads = metrics.counter("hongbao_cold_reads_total", "Envelopes of cold days read, by where from", ("source",))
_missing = metrics.counter("hongbao_archive_unavailable_total", "Cold envelopes whose archive was missing or not true")


class _Kept(NamedTuple):
    log: ClaimLog
    claims: ClaimsJson


class ColdEnvelopes:
    """Answers requests for envelopes of cold days; `run` owns the workers. `details` is None without an archive.

    The session is used by one task at a time; the archive is read in threads.
    """

    def __init__(self, session: postgres.Session, details: Details | None, context: ActorContext[Actor]) -> None:
        self._session = session
        self._details = details
        self._context = context
        self._cold: dict[int, RegisterEntry] = {}
        """By `_database_day`, as last read: rotation may have gone on since."""
        self._news = False
        """Whether a day has become cold that nobody has heard of."""
        self._seen: str | None = None
        """The register's watermark at the last read of all days."""
        self._stale: set[int] = set()
        """Of these the register is read again before an archive: the one that it named was replaced."""
        self._invalidated = 0
        """Counts `invalidate`: what was read across a call is read again."""
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._weight = 0
        self._waiting: dict[int, list[Request]] = {}
        self._queued: asyncio.Queue[int] = asyncio.Queue()
        self._unverified: asyncio.Queue[int] = asyncio.Queue(COLD_UNVERIFIED)
        self._reading = asyncio.Lock()
        self._pool = ThreadPoolExecutor(COLD_THREADS + 1, "archive")

    @property
    def idle(self) -> bool:
        """Whether no request waits."""
        return not self._waiting

    def covers(self, envelope_id: int) -> bool:
        """Say whether the envelope's day was cold at the last `refresh`."""
        return _database_day(envelope_id) in self._cold

    async def refresh(self, connection: Any, days: Collection[date] | None = None) -> None:
        """Read the register for `days`, or for all days; `take_news` says whether a day has newly become cold.

        Of all days, only rows that may have changed since the last such call are read.
        """
        if days is None:
            seen = await watermark(connection)
            found: Register = await read_register(connection, since=self._seen)
            self._seen = seen
        else:
            found = await read_register(connection, days)
        cold = {yymmdd(day) * 100 + xx: one for (day, xx), one in found.items() if one.cold}
        self._news |= not cold.keys() <= self._cold.keys()
        self._cold.update(cold)

    def take_news(self) -> bool:
        """Say whether a day has become cold since the last such call: who takes the news retires its actors.

        Whoever happened to read the register first: a load does so, too.
        """
        news, self._news = self._news, False
        return news

    def answer(self, envelope_id: int, requests: Iterable[Request]) -> None:
        """Answer requests for an envelope of a cold day: at once if its log is kept or not needed, else when read."""
        for request in requests:
            if request.action is Action.EXPIRE:
                request.fail(not_found())  # `due` should not name it: expiry logs it as unclosable
            elif request.maybe_written:
                request.fail(outcome_unknown())
            elif request.action in (Action.OPEN, Action.GRAB):
                request.answer(EXPIRED)
                self._context.tally[EXPIRED.outcome.code] += 1
            elif envelope_id in self._kept:
                self._reply(request, self._kept[envelope_id])
            else:
                self._queue(envelope_id, request)

    def invalidate(self, envelope_id: int | None = None) -> None:
        """Have a log (None: all logs) read again before it is shown: a name in it was replaced (`users`)."""
        self._invalidated += 1
        if envelope_id is None:
            self._stale.update(self._cold)
            self._kept.clear()
            self._weight = 0
            return
        self._stale.add(_database_day(envelope_id))
        if (kept := self._kept.pop(envelope_id, None)) is not None:
            self._weight -= kept.log.terms.count

    async def run(self) -> None:
        """Read logs until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(COLD_THREADS):
                    tasks.create_task(self._work())
                tasks.create_task(self._work_on_unverified())
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
            if self._details is not None:
                self._details.close()

    async def find(self, envelope_id: int, *, may_verify: bool = True) -> ClaimLog | None:
        """Return the log of an envelope of a cold day; None if the day is not cold or has no such envelope.

        Raises NotVerifiedYet if the whole archive must be verified first and `may_verify` is False; Unavailable
        `archive_unavailable` or `database_unavailable`; InvariantBroken.
        """
        before: RegisterEntry | None = None
        # The entry is read again if it is unknown, or if the tables that it names did not have the envelope: they may
        # have been dropped since, and the row is in the archive then.
        for _ in range(COLD_LOOKS):
            entry = self._entry_of(envelope_id)
            if entry is None or entry == before or _database_day(envelope_id) in self._stale:
                await self._refresh_day(envelope_id)
                entry = self._entry_of(envelope_id)
            if entry is None or entry == before:
                return None
            try:
                row = await self._read(envelope_id, entry, may_verify=may_verify)
            except Unavailable:
                # An archive that was written anew is in its place before the register, as last read, names it.
                await self._refresh_day(envelope_id)
                if not entry.dropped or self._entry_of(envelope_id) == entry:
                    raise
                continue
            if row is not None:
                return self._restored(row)
            if entry.dropped:
                return None
            before = entry
        return None

    def _entry_of(self, envelope_id: int) -> RegisterEntry | None:
        return self._cold.get(_database_day(envelope_id))

    def _queue(self, envelope_id: int, request: Request) -> None:
        """Have a worker read the envelope, once for all requests that wait for it."""
        waiting = self._waiting.get(envelope_id)
        most = COLD_CARDS if request.action is Action.CARD else COLD_QUEUE
        is_full = len(self._waiting) >= most if waiting is None else len(waiting) >= MAILBOX
        if is_full:
            request.fail(_busy())
        elif waiting is not None:
            waiting.append(request)
        else:
            self._waiting[envelope_id] = [request]
            self._queued.put_nowait(envelope_id)

    async def _work(self) -> None:
        """Answer envelopes of archives that are verified; the others go to a queue of their own.

        Clients may send made-up IDs of any day: those must not delay requests for verified archives.
        """
        while True:
            envelope_id = await self._queued.get()
            try:
                self._answer_all(envelope_id, await self._found(envelope_id, may_verify=False))
            except NotVerifiedYet:
                try:
                    self._unverified.put_nowait(envelope_id)
                except asyncio.QueueFull:
                    self._answer_all(envelope_id, _busy())

    async def _work_on_unverified(self) -> None:
        while True:
            envelope_id = await self._unverified.get()
            self._answer_all(envelope_id, await self._found(envelope_id, may_verify=True))

    def _answer_all(self, envelope_id: int, found: _Kept | HongbaoError) -> None:
        for request in self._waiting.pop(envelope_id):
            self._reply(request, found)

    async def _found(self, envelope_id: int, *, may_verify: bool) -> _Kept | HongbaoError:
        """Return the log or the error to reply with; raises NotVerifiedYet as `find`."""
        now = self._context.loop_time()
        if all(request.arrived_at < now - _patience_s(request) for request in self._waiting[envelope_id]):
            return _busy()
        for _ in range(COLD_LOOKS):
            invalidated = self._invalidated
            try:
                log = await self.find(envelope_id, may_verify=may_verify)
                found: _Kept | HongbaoError = not_found() if log is None else _kept_of(log)
            except NotVerifiedYet:
                raise
            except HongbaoError as error:
                found = error
            except Exception as error:  # noqa: BLE001 - every request must get a reply, and the worker goes on
                found = _away(f"{type(error).__name__}: {error}")
            if invalidated == self._invalidated:
                break
        else:
            return _busy()
        return self._keep(found) if isinstance(found, _Kept) else found

    async def _read(self, envelope_id: int, entry: RegisterEntry, *, may_verify: bool) -> Any:
        """Return the row of an envelope from where `entry` says; None if it, or the day's tables, are not there."""
        if entry.dropped:
            return await self._from_archive(envelope_id, entry, may_verify=may_verify)
        day = day_of(envelope_id)
        args = [envelope_id], [slot_of(envelope_id)], first_id(day), end_id(day), ALL_SHARES
        try:
            rows: Sequence[Any] = await self._run(lambda connection: connection.fetch(query_of(day), *args))
        except Exception as error:
            if getattr(error, "sqlstate", "") == _NO_TABLE:
                return None
            raise
        _reads.labels("tables").inc()
        return rows[0] if rows else None

    async def _from_archive(self, envelope_id: int, entry: RegisterEntry, *, may_verify: bool) -> Any:
        if self._details is None:
            raise _away("HONGBAO_ARCHIVE and HONGBAO_ARCHIVE_KEY are not set")
        loop = asyncio.get_running_loop()
        read = partial(self._details.read, envelope_id, entry.manifest_sha256, may_verify=may_verify)
        try:
            row = await loop.run_in_executor(self._pool, read)
        except (Refused, Unavailable) as error:
            raise _away(error.detail) from error
        _reads.labels("archive").inc()
        return row

    async def _refresh_day(self, envelope_id: int) -> None:
        day = day_of(envelope_id)
        invalidated = self._invalidated
        await self._run(lambda connection: self.refresh(connection, [day]))
        if invalidated == self._invalidated:
            self._stale.discard(_database_day(envelope_id))

    async def _run(self, work: Any) -> Any:
        async with self._reading:
            return await self._session.run(work, LOAD_DEADLINE_S)

    def _restored(self, row: Any) -> ClaimLog:
        log = restore(row)
        if isinstance(log, InvariantBroken):
            _log.critical("a cold envelope does not add up", envelope_id=str(row["envelope_id"]), reason=log.detail)
            raise log
        return log

    def _keep(self, kept: _Kept) -> _Kept:
        log = kept.log
        self._kept[log.terms.envelope_id] = kept
        self._weight += log.terms.count
        while self._weight > COLD_SHARES and len(self._kept) > 1:
            self._weight -= self._kept.popitem(last=False)[1].log.terms.count
        return kept

    def _reply(self, request: Request, found: _Kept | HongbaoError) -> None:
        """Reply with the envelope's state if the user may see it; a state that cannot be shown fails this request."""
        try:
            self._show(request, found)
        except Exception as error:  # noqa: BLE001 - whatever a row says, the worker goes on
            # The caller logs it, with its traceback.
            request.caller.fail(request.number, error)

    def _show(self, request: Request, found: _Kept | HongbaoError) -> None:
        """Show it as to any who may see it; a CANCEL as for any closed envelope."""
        if isinstance(found, HongbaoError):
            request.fail(found)
            return
        log, claims = found
        self._kept.move_to_end(log.terms.envelope_id)
        refusal = cancel_refusal(log, request) if request.action is Action.CANCEL else None
        if refusal is None and not may_see(log, request.user, token_ok=request.token_ok):
            refusal = not_invited()
        if refusal is not None:
            request.fail(refusal)
        elif request.page.live:
            request.show(*live_frame(log, self._context.now_ms(), lambda: claims.best))
        elif request.action is Action.CARD:
            request.show(card_of_log(log, request.user, self._context.now_ms()))
        else:
            now_ms, page = self._context.now_ms(), request.page
            version = version_of(log, request.user, now_ms, page, archived=True)
            shown = None
            if not is_known(version, page):
                shown = as_json({**detail_view(log, request.user, now_ms, claims, page), "archived": True})
            request.show(shown, request.user == log.terms.sender, version)


def _kept_of(log: ClaimLog) -> _Kept:
    claims = ClaimsJson(log)
    claims.catch_up()
    return _Kept(log, claims)


def _patience_s(request: Request) -> float:
    """Return how long a request is worth an answer: a page of cards is replied to without what comes after CARDS_S."""
    return CARDS_S if request.action is Action.CARD else STALE_S


def _busy() -> Unavailable:
    return Unavailable("busy", "too many old envelopes are being looked up; try again")


def _away(reason: str) -> Unavailable:
    _missing.inc()
    _log.error("a cold envelope cannot be read", reason=reason)
    return Unavailable(
        "archive_unavailable", "the archive of this day cannot be read just now; operators know, try again later"
    )


def _database_day(envelope_id: int) -> int:
    """Return the key of `_cold`: the envelope's day and the number of its database, YYMMDDxx as a number."""
    return yymmdd_of(envelope_id) * 100 + database_for(envelope_id)
