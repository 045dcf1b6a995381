"""One sink in one SET: reads the log, delivers, and keeps how far it has come."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import cast

from errors import Refused
from events.facts import events_of
from events.health import Health
from events.lanes import Lanes
from events.limits import (
    ASKED_S,
    DISABLED_AFTER_S,
    ENTRIES_IN_FLIGHT,
    LANES,
    POLL_S,
    QUIET_SAVE_S,
    RETRY_LOOK_S,
    SAVE_S,
)
from events.log_reader import read
from events.outcome import GONE, Sender, one_line
from events.progress import Progress
from events.register import Sink, disable
from events.retries import Retries
from events.set_session import SetSession
from runtime import logs, metrics, sql

_SAVE = sql.read("events", "save_cursor")

_log = logs.get("events")
_delivered = metrics.counter(
    "hongbao_events_delivered_total", "Events that were accepted, or put apart", ("sink", "set")
)


class Delivery:
    """Runs until it is cancelled, or until its sink is disabled or removed."""

    def __init__(self, session: SetSession, set_name: str, sink: Sink, sender: Sender, *, lanes: int = LANES) -> None:
        self._session = session
        self._set = set_name
        self._target = sink.target
        self._health = Health(sink.failing_since, sink.error)
        self._progress = Progress(sink.cursor)
        self._retries = Retries(session, set_name, sink.target.name, sender)
        self._lanes = Lanes(sender, self._health, self._retries, count=lanes, batch=sink.target.batch)
        self._since = sink.since
        self._saved = (sink.cursor, sink.error, sink.failing_since)
        self._saved_at = time.monotonic()

    async def run(self) -> None:
        """Deliver. Raises Unavailable if the SET's connection is lost: another session begins at the saved cursor."""
        await self._retries.load()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read())
                tasks.create_task(self._lanes.run())
                tasks.create_task(self._keep_saving())
                tasks.create_task(self._retry())
        except* Refused as group:
            first: BaseException = group
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            await self._end(cast("Refused", first))

    def wake(self) -> None:
        """Ask the receiver at once: lanes that pause go on, and what is retried apart is tried at the next look."""
        self._health.wake()
        self._retries.wake()

    async def _read(self) -> None:
        cursor = self._progress.cursor
        while True:
            while len(self._progress) >= ENTRIES_IN_FLIGHT:
                await asyncio.sleep(POLL_S / 10)
                self._progress.advance()
            began = time.monotonic()
            found = await self._session.run(lambda connection, at=cursor: read(connection, at))  # type: ignore[misc]
            for entry, behind in found.entries:
                wanted = self._target.types
                events = [one for one in events_of(entry) if not wanted or one.type in wanted]
                pending = self._progress.begin(behind, len(events))
                for event in events:
                    await self._lanes.put(event, pending)
            if found.next != cursor:
                cursor = found.next
                if not cursor.span_begun:
                    self._progress.end_span(cursor)
            if not found.entries:
                took_s = time.monotonic() - began
                await asyncio.sleep(max(POLL_S - took_s, took_s))

    async def _keep_saving(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            await self.save()
            self._check_patience()

    async def save(self) -> None:
        """Write the cursor and how the receiver does, if anything changed; durable when this returns.

        A cursor that has passed no entry is written now and then only: each write is a commit, which moves it again.
        Raises Refused `sink_removed` if the sink that was begun with is gone, or was paused, disabled or resumed.
        """
        cursor, passed = self._progress.advance(), self._progress.taken()
        shown = self._health.shown
        now = (cursor, *shown)
        if now == self._saved:
            return
        quiet = not passed.entries and shown == self._saved[1:]
        if quiet and time.monotonic() - self._saved_at < QUIET_SAVE_S:
            return
        count = passed.events
        columns = self._target.name, *cursor, count, count > 0, *shown
        name = await self._session.run(lambda connection: connection.fetchval(_SAVE, *columns, self._since))
        self._saved, self._saved_at = now, time.monotonic()
        _delivered.labels(self._target.name, self._set).inc(count)
        if name is None:
            raise Refused("sink_removed", f"the sink {self._target.name} was removed, or its state changed")

    def _check_patience(self) -> None:
        """Raise Refused if the receiver has failed for days, and still does: it may be well since we were away."""
        since = self._health.failing_since
        if since is None or self._health.asked_in_vain_s < ASKED_S:
            return
        if (datetime.now(UTC) - since).total_seconds() > DISABLED_AFTER_S:
            raise Refused(
                "receiver_failed", f"no call has succeeded since {since:%Y-%m-%d %H:%M} UTC: {self._health.error}"
            )

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(RETRY_LOOK_S)
            # What waits behind an accepted one of its envelope has no pause of its own.
            while self._may_retry() and await self._retries.run_once():
                if self._health.failing_since is not None:
                    self._health.succeeded()

    def _may_retry(self) -> bool:
        """Say whether what is retried may be sent: not while the receiver fails and lanes find out when it is back.

        If no lane calls it, or one is held until something retried is through, only a retry can find out.
        """
        return self._health.failing_since is None or self._health.held or not self._lanes.calling

    async def _end(self, refusal: Refused) -> None:
        if refusal.code == "sink_removed":
            _log.info("sink removed or changed", sink=self._target.name, set=self._set)
            return
        _log.error(
            "sink disabled", sink=self._target.name, set=self._set, reason=refusal.detail, gone=refusal.code == GONE
        )
        with contextlib.suppress(Refused):  # it may be removed meanwhile
            await self.save()
        reason = one_line(refusal.detail)
        await self._session.run(lambda connection: disable(connection, self._target.name, self._since, reason))
