"""One SET's events: takes the SET, delivers to each of its sinks, deletes what all have passed."""

import asyncio
import contextlib
from collections.abc import Callable

from errors import HongbaoError, Unavailable
from events.delivery import Delivery
from events.gauges import Gauges
from events.limits import CLOSE_S, KEPT_S, LOOK_S, MAX_AWAY_S, TRIM_ENTRIES, TRIM_S
from events.outcome import Sender, one_line
from events.register import Sink, State, Target, list_sinks, note_failure
from events.set_session import SetSession
from events.wake import CHANNEL
from runtime import logs, metrics, postgres, sql

_TRIM = sql.read("events", "trim_log")
_DROP = sql.read("events", "drop_old")
_EXPIRED = "DELETE FROM event_sink WHERE expires_at < now()"

MakeSender = Callable[[Target], Sender]

_log = logs.get("events")
_lost = metrics.counter("hongbao_events_lost_entries_total", "Commits deleted before a sink had passed them", ("set",))


class _Running:
    """A delivery that goes on. Of its target, secrets change without a pause; anything else begins a new one.

    So does a sink that was paused and resumed, or removed and added, between two looks: `since` says so.
    """

    def __init__(self, sink: Sink, sender: Sender, delivery: Delivery) -> None:
        self.target = sink.target
        self.since = sink.since
        self.sender = sender
        self.wake = delivery.wake
        self.task = asyncio.create_task(delivery.run(), name=f"sink {sink.target.name}")

    def takes(self, sink: Sink) -> bool:
        """Whether the delivery can go on with this sink; its secrets are taken over then."""
        target = sink.target
        same = self.target._replace(secrets=target.secrets, old_secrets_until=target.old_secrets_until)
        if same != target or self.since != sink.since:
            return False
        if target != self.target:
            self.target = target
            self.sender.retarget(target)
        return True

    async def end(self) -> None:
        """Stop; what was not accepted is sent again by the next delivery."""
        self.task.cancel()
        await asyncio.wait({self.task})
        await self.close()

    async def close(self) -> None:
        """Close what the sender holds; a fault there is not one of other sinks."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await self.sender.close()


class SetWorker:
    """`held`: whether this process delivers the events of the SET now; `answers`: whether its Postgres does."""

    def __init__(self, name: str, dsn: str, make_sender: MakeSender) -> None:
        self.name = name
        self.held = False
        self.answers = False
        self._dsn = dsn
        self._make_sender = make_sender
        self._running: dict[str, _Running] = {}
        self._trimmed_to = "0"
        """The transaction from which the log still has entries."""
        self._gauges = Gauges(name)

    async def run(self) -> None:
        """Work until cancelled. After an error it begins anew: other SETs go on meanwhile."""
        failures = 0
        while True:
            session = SetSession(self._dsn)
            try:
                await self._take(session)
                await session.hear(CHANNEL, self._wake)
                failures, self._trimmed_to = 0, "0"
                await self._work(session)
            except Unavailable as error:
                _log.warning("SET away", set=self.name, error=error.detail)
            except Exception as error:  # noqa: BLE001 - a SET that cannot be read must not end the delivery of others
                _log.error("the events of a SET cannot be delivered", set=self.name, exc_info=error)
            finally:
                self.held = self.answers = False
                self._gauges.show(())
                await self._end_all()
                await session.close()
            failures += 1
            await postgres.pause(failures, most_s=MAX_AWAY_S)
            await asyncio.sleep(LOOK_S)

    async def _take(self, session: SetSession) -> None:
        """Wait until this process has the SET."""
        while not await session.lock():
            self.answers = True
            await asyncio.sleep(LOOK_S)
        self.held = self.answers = True

    async def _work(self, session: SetSession) -> None:
        trimmed = 0.0
        while True:
            await self._look(session)
            now = asyncio.get_running_loop().time()
            if now - trimmed >= TRIM_S:
                trimmed = now
                await self.trim(session)
            await asyncio.sleep(LOOK_S)

    async def _look(self, session: SetSession) -> None:
        """Begin and end deliveries as the list of sinks says."""
        sinks = {one.target.name: one for one in await session.run(list_sinks)}
        self._gauges.show(sinks.values())
        for name, running in list(self._running.items()):
            sink = sinks.get(name)
            if running.task.done():
                self._running.pop(name)
                sinks.pop(name, None)
                await running.close()
                await self._note_what_ended(session, running)
            elif sink is None or sink.state != State.ACTIVE or not running.takes(sink):
                await self._running.pop(name).end()
        # A delivery that has ended begins again at the next look, from where its sink stands then.
        for name, sink in sinks.items():
            if name not in self._running and sink.state == State.ACTIVE:
                await self._begin(session, sink)

    async def _begin(self, session: SetSession, sink: Sink) -> None:
        try:
            sender = self._make_sender(sink.target)
        except HongbaoError as error:
            reason = one_line(f"it cannot be called: {error.detail}")
            if sink.failing_since is None or sink.error != reason:
                _log.error("sink cannot be called", sink=sink.target.name, set=self.name, error=error.detail)
                name, since = sink.target.name, sink.since
                await session.run(lambda connection: note_failure(connection, name, since, reason))
            return
        self._running[sink.target.name] = _Running(sink, sender, Delivery(session, self.name, sink, sender))

    async def _note_what_ended(self, session: SetSession, running: _Running) -> None:
        """Raise Unavailable if a delivery ended because the SET is away; any other error is shown as its sink's."""
        task, name = running.task, running.target.name
        if task.cancelled() or (error := task.exception()) is None:
            return
        first: BaseException = error
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, Unavailable):
            raise first
        _log.error("delivery failed; it begins again", sink=name, set=self.name, exc_info=error)
        reason = one_line(f"a fault of hongbao, its log says more: {type(first).__name__}: {first}")
        await session.run(lambda connection: note_failure(connection, name, running.since, reason))

    def _wake(self, sink: str) -> None:
        if sink in self._running:
            self._running[sink].wake()

    async def _end_all(self) -> None:
        running, self._running = list(self._running.values()), {}
        for one in running:
            with contextlib.suppress(Exception):
                await one.end()

    async def trim(self, session: SetSession) -> None:
        """Delete tails that have expired, and entries that every sink has passed or that are too old."""
        await session.run(lambda connection: connection.execute(_EXPIRED))
        begin = self._trimmed_to
        trimmed = await session.run(lambda connection: connection.fetchrow(_TRIM, TRIM_ENTRIES, begin))
        self._trimmed_to = end = trimmed["next"]
        lost = await session.run(lambda connection: connection.fetchval(_DROP, KEPT_S, TRIM_ENTRIES, end))
        if lost:
            _lost.labels(self.name).inc(lost)
            _log.error("entries deleted that a sink had not passed", set=self.name, entries=lost)
