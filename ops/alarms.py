"""What an operator must see first: facts about now, each with a code that the page puts into words."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from installation.parts import Kind
from ops.exposition import Exposed, total
from ops.parts import Part
from ops.scrape import Look
from schema.day_tables import ALARM_DAYS, PAGE_DAYS
from sharding.topology import Topology
from switches.switch import Switch


class Level(StrEnum):
    """PAGE: money or users wait. LOOK: today. NOTE: on purpose, and easily forgotten."""

    PAGE = "page"
    LOOK = "look"
    NOTE = "note"


class Alarm(msgspec.Struct, frozen=True):
    """`subject`: which part, SET or switch; `value`: how many, or until when."""

    level: Level
    code: str
    subject: str
    value: str = ""


_ABOVE_ZERO = {
    "hongbao_invariants_broken_total": (Level.PAGE, "invariants_broken"),
    "hongbao_wallet_invariant_broken_total": (Level.PAGE, "invariants_broken"),
    "hongbao_sweeper_stopped": (Level.PAGE, "sweeper_stopped"),
    "hongbao_sweeper_set_apart": (Level.LOOK, "funds_set_apart"),
    "hongbao_payouts_stuck_total": (Level.LOOK, "payouts_stuck"),
    "hongbao_expiry_unclosable": (Level.LOOK, "expiry_unclosable"),
    "hongbao_archive_unavailable_total": (Level.LOOK, "archive_unavailable"),
    "hongbao_events_failing": (Level.LOOK, "events_failing"),
    "hongbao_events_lost_entries_total": (Level.LOOK, "events_lost"),
    "hongbao_job_failed": (Level.LOOK, "jobs_failed"),
}
"""Metrics that are 0 while all is well (docs/operations/README.md, "What to watch")."""


def alarms(
    parts: Iterable[Part],
    looks: Mapping[str, Look],
    exposed: Mapping[str, Exposed],
    topology: Topology,
    switches: Sequence[Switch],
) -> list[Alarm]:
    """Return what holds now, the most urgent first."""
    known = list(parts)
    served = {one.title for one in known if looks[one.name].up}
    found = [
        Alarm(Level.LOOK if one.has_others and one.title in served else Level.PAGE, "away", one.name, look.detail)
        for one in known
        if not (look := looks[one.name]).up
    ]
    short: set[str] = set()
    for one in known:
        numbers = exposed.get(one.name, {})
        for metric, (level, code) in _ABOVE_ZERO.items():
            if value := total(numbers, metric):
                found.append(Alarm(level, code, one.name, f"{value:.0f}"))
        if one.kind is Kind.SETNODE and "hongbao_day_tables_ahead" in numbers and one.set not in short:
            ahead = total(numbers, "hongbao_day_tables_ahead")
            if ahead < ALARM_DAYS:
                # All servers of a SET say the same.
                short.add(one.set)
                level = Level.PAGE if ahead < PAGE_DAYS else Level.LOOK
                found.append(Alarm(level, "days_ahead", one.set, f"{ahead:.0f}"))
    found += [Alarm(Level.NOTE, "paused", one.name) for one in topology.sets if one.paused]
    found += [Alarm(Level.NOTE, "drained", server) for one in topology.sets for server in one.drained]
    found += [Alarm(Level.NOTE, "switched", one.name, one.until.isoformat()) for one in switches]
    return sorted(found, key=lambda one: list(Level).index(one.level))
