"""The daemon: makes tables ahead, takes ordinary days as far as `verified`, and reports days that it could not prove.

It drops nothing unless its settings say so. It keeps no state: the next round finds in register and catalog what a
failed one has left undone, and does it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec

from errors import HongbaoError, InvariantBroken, Unavailable
from rotation import driver_errors
from rotation.drop import drop_day
from rotation.limits import AHEAD_S, GRACE_DAYS, MIN_AGE_DAYS, ORDINARY_S, RETENTION_DAYS
from rotation.plan import Action, Alarm, Rules, judge, ready
from rotation.register import Operator
from rotation.steps import Rotation
from rotation.survey import survey
from runtime import logs, metrics
from runtime.postgres import connected
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


Age = Annotated[int, msgspec.Meta(ge=MIN_AGE_DAYS, le=36_500)]


class DaemonSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_ROTATE_*; ages in business days. `rotate_drop` lets it drop what is past its retention."""

    rotate_grace_days: Age = GRACE_DAYS
    """Age in business days from which a day is rotated."""
    rotate_retention_days: Age = RETENTION_DAYS
    """Age in business days from which a verified day may be dropped from the database; its archive stays."""
    rotate_every_s: Annotated[float, msgspec.Meta(ge=1, le=86_400)] = 600.0
    """Seconds between two rounds."""
    rotate_drop: bool = False
    """1: the daemon drops what is verified and past its retention. Unless set only `rotate drop` does."""
    rotate_listen: str = "127.0.0.1:0"
    """HOST:PORT for probes and metrics; port 0 takes a free one."""

    @property
    def rules(self) -> Rules:
        """The two ages, as the plan takes them."""
        return Rules(self.rotate_grace_days, self.rotate_retention_days)


@dataclass
class Round:
    """What one round did: days made, rotated and dropped as (SET, day), and what failed as (SET, day, error)."""

    made: list[tuple[str, date]] = field(default_factory=list)
    rotated: list[tuple[str, date]] = field(default_factory=list)
    dropped: list[tuple[str, date]] = field(default_factory=list)
    failed: list[tuple[str, date | None, HongbaoError]] = field(default_factory=list)


@dataclass(frozen=True)
class Daemon:
    """`run_once` is one round over all SETs; `rotations` is called in each round, because the topology may change."""

    rotations: Callable[[], Sequence[Rotation]]
    zone: Callable[[], ZoneInfo]
    settings: DaemonSettings
    refresh: Callable[[], Awaitable[None]] | None = None
    """Brings this host's topology up to what is published, before each round; None where others do that."""

    async def run_once(self) -> Round:
        """Rotate ordinary days and make tables ahead, SET by SET; an error ends one part and is noted in `failed`.

        Tables are made after the days have left, because that frees their names, and also if a day could not leave.
        Each SET takes ORDINARY_S and twice AHEAD_S at most.
        """
        done = Round()
        if self.refresh is not None:
            await self.refresh()
        for rotation in self.rotations():
            name = rotation.set_access.name
            today = business_date(rotation.clock.now(), self.zone())
            await self._part(done, name, None, self._ordinary(rotation, today, done), ORDINARY_S)
            await self._part(done, name, None, self._make_ahead(rotation, today, done), AHEAD_S)
            await self._part(done, name, None, self._measure(rotation, today), AHEAD_S)
        return done

    async def _ordinary(self, rotation: Rotation, today: date, done: Round) -> None:
        name = rotation.set_access.name
        seen = await survey(rotation.set_access, today, self.settings.rules, with_obstacles=False)
        unproven = 0
        for day in ready(seen.days, archives=rotation.archive is not None):
            error = await self._part(done, name, day, rotation.run(day, today, BY))
            if error is None:
                _rotated.labels(name).inc()
                done.rotated.append((name, day))
            else:
                unproven += error.code == "day_unproven"
        _unproven.labels(name).set(unproven)
        if self.settings.rotate_drop:
            await self._drop(rotation, [one.facts.day for one in seen.days if one.action is Action.DROP], today, done)

    async def _drop(self, rotation: Rotation, days: Collection[date], today: date, done: Round) -> None:
        name, retention = rotation.set_access.name, self.settings.rotate_retention_days
        by = Operator("daemon", "past its retention, and the settings say to drop")
        for day in days:
            if await self._part(done, name, day, drop_day(rotation, day, today, by, retention_days=retention)) is None:
                done.dropped.append((name, day))

    @staticmethod
    async def _make_ahead(rotation: Rotation, today: date, done: Round) -> None:
        with driver_errors.translated(rotation.set_access.name):
            made = await DayTables(rotation.set_access.dsn, rotation.set_access.databases).ensure(today, by_clock=True)
        done.made.extend((rotation.set_access.name, day) for day in made)

    @staticmethod
    async def _measure(rotation: Rotation, today: date) -> None:
        """Publish how many days ahead have tables, as the catalog says; publish nothing if it cannot be read."""
        name = rotation.set_access.name
        with driver_errors.translated(name):
            async with connected(rotation.set_access.dsn, application_name="hongbao:rotate") as connection:
                ahead = days_ahead(await known_days(connection), today)
        _ahead.labels(name).set(ahead)
        if (urgent := judge(ahead)[1]) is not Alarm.OK:
            _log.error("tables run out", set=name, days_ahead=ahead, urgency=urgent.value)

    @staticmethod
    async def _part(
        done: Round, name: str, day: date | None, work: Coroutine[Any, Any, object], limit_s: float | None = None
    ) -> HongbaoError | None:
        """Await one part of the round, for `limit_s` at most; return its error, which is noted and counted, or None."""
        try:
            async with asyncio.timeout(limit_s) as limit:
                await work
        except HongbaoError as raised:
            error = raised
        except TimeoutError as raised:
            text = f"was given up after {limit_s:g} s" if limit.expired() else f"did not answer in time: {raised!r}"
            error = Unavailable("rotation_late", f"{name} {text}; the next round goes on")
        except Exception as raised:  # noqa: BLE001 - a bug that one SET meets must not leave the others without tables
            error = InvariantBroken("rotation_round", f"{name}: {type(raised).__name__}: {raised}")
            _log.exception("a part of a round failed", set=name, day=str(day))
        else:
            return None
        done.failed.append((name, day, error))
        _failed.labels(name, error.code).inc()
        _log.warning("not done", set=name, day=str(day), code=error.code, reason=error.detail)
        return error
