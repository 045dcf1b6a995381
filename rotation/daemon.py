"""The daemon: makes tables ahead, takes the ordinary days all the way, and reports what it could not prove.

It never drops unless its settings say so. A round that fails leaves everything to the next: all it knows stands in the
register and the catalog.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import date
from zoneinfo import ZoneInfo

import msgspec

from envelope.errors import HongbaoError
from rotation.drop import drop_day
from rotation.limits import GRACE_DAYS, RETENTION_DAYS
from rotation.plan import Action, Rules, judge, ready
from rotation.register import Operator
from rotation.steps import Rotation
from rotation.survey import survey
from runtime import logs, metrics, postgres
from schema.day_tables import DayTables, days_ahead, known_days
from sharding.ids import business_date

BY = Operator("daemon", "an ordinary day")

_log = logs.get("rotation")
_ahead = metrics.gauge(
    "hongbao_rotation_days_ahead", "Days after today with tables; alarm below 7, page below 2", ("set",)
)
_unproven = metrics.gauge("hongbao_rotation_days_unproven", "Days past their grace that could not be proven", ("set",))
_rotated = metrics.counter("hongbao_rotation_days_rotated_total", "Days taken as far as they go", ("set",))
_failed = metrics.counter("hongbao_rotation_rounds_failed_total", "Parts of rounds that failed", ("set", "code"))


class DaemonSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_ROTATE_*; ages in business days. `rotate_drop` lets it drop what is past its retention."""

    rotate_grace_days: int = GRACE_DAYS
    rotate_retention_days: int = RETENTION_DAYS
    rotate_every_s: float = 600.0
    rotate_drop: bool = False
    rotate_listen: str = "127.0.0.1:0"

    @property
    def rules(self) -> Rules:
        """The ages as the plan takes them."""
        return Rules(self.rotate_grace_days, self.rotate_retention_days)


@dataclass
class Round:
    """What one round did: days rotated and dropped as (SET, day), and what failed as (SET, day, error)."""

    made: list[tuple[str, date]] = field(default_factory=list)
    rotated: list[tuple[str, date]] = field(default_factory=list)
    dropped: list[tuple[str, date]] = field(default_factory=list)
    failed: list[tuple[str, date | None, HongbaoError]] = field(default_factory=list)


@dataclass(frozen=True)
class Daemon:
    """`run_once` is one round over all SETs; `rotations` are looked up anew each round, as the topology may change."""

    rotations: Callable[[], Sequence[Rotation]]
    held: Callable[[str], Collection[int] | Callable[[date], Collection[int]]]
    zone: Callable[[], ZoneInfo]
    settings: DaemonSettings

    async def run_once(self) -> Round:
        """Do all that is ordinary; one SET's fault does not keep the others from theirs."""
        done = Round()
        for rotation in self.rotations():
            name = rotation.target.name
            today = business_date(rotation.clock.now(), self.zone())
            try:
                await self._one_set(rotation, today, done)
            except HongbaoError as error:
                self._note(done, name, None, error)
        return done

    async def _one_set(self, rotation: Rotation, today: date, done: Round) -> None:
        name = rotation.target.name
        seen = await survey(rotation.target, today, self.settings.rules, look=False)
        unproven = 0
        for day in ready(seen.days, archives=rotation.archive is not None):
            try:
                await rotation.run(day, today, BY)
            except HongbaoError as error:
                unproven += error.code == "day_unproven"
                self._note(done, name, day, error)
            else:
                _rotated.labels(name).inc()
                done.rotated.append((name, day))
        _unproven.labels(name).set(unproven)
        if self.settings.rotate_drop:
            await self._drop(rotation, [one.facts.day for one in seen.days if one.action is Action.DROP], today, done)
        await self._make_ahead(rotation, today, done)

    async def _drop(self, rotation: Rotation, days: Collection[date], today: date, done: Round) -> None:
        name = rotation.target.name
        by = Operator("daemon", "past its retention, and the settings say to drop")
        for day in days:
            try:
                await drop_day(rotation, day, today, by, retention_days=self.settings.rotate_retention_days)
            except HongbaoError as error:
                self._note(done, name, day, error)
            else:
                done.dropped.append((name, day))

    async def _make_ahead(self, rotation: Rotation, today: date, done: Round) -> None:
        """Make the tables of the coming days: after rotating, which is what sets their names free."""
        name = rotation.target.name
        try:
            made = await DayTables(rotation.target.dsn, self.held(name)).ensure(today)
            done.made.extend((name, day) for day in made)
        finally:
            connection = await postgres.connect(rotation.target.dsn)
            try:
                ahead, urgent = judge(days_ahead(await known_days(connection), today))
            finally:
                await connection.close(timeout=2.0)
            _ahead.labels(name).set(ahead)
            if urgent != "ok":
                _log.error("tables run out", set=name, days_ahead=ahead, urgency=urgent.value)

    @staticmethod
    def _note(done: Round, name: str, day: date | None, error: HongbaoError) -> None:
        done.failed.append((name, day, error))
        _failed.labels(name, error.code).inc()
        _log.warning("not done", set=name, day=str(day), code=error.code, reason=error.detail)
