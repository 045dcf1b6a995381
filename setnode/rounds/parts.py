"""Cuts a list of envelopes into parts that one query may ask for: of one day and a few slots.

A query over claims or headers without such bounds is planned over every leaf of every day, locks all of them and keeps
about 15 KB for each: with tables for weeks ahead and behind that is seconds and hundreds of megabytes a connection. The
bounds must be constants when it is planned (`plan_cache_mode = force_custom_plan`).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from setnode.limits import LOAD_SLOTS

_DAY = 10**13
"""IDs of one business day. Not asked of the calendar: `due` may name what never was."""


class Part(NamedTuple):
    """Positions in the list that was cut, with their slots and the bounds of their day."""

    positions: list[int]
    slots: list[int]
    low: int
    end: int


def parts_of(envelope_ids: Iterable[int]) -> Iterator[Part]:
    """Cut, in order of day and slot; every position is in one part."""
    order = sorted((one // _DAY, one % 1000, position) for position, one in enumerate(envelope_ids))
    part: Part | None = None
    for day, slot, position in order:
        if part is not None and (part.low != day * _DAY or (part.slots[-1] != slot and len(part.slots) == LOAD_SLOTS)):
            yield part
            part = None
        if part is None:
            part = Part([], [], day * _DAY, (day + 1) * _DAY)
        part.positions.append(position)
        if not part.slots or part.slots[-1] != slot:
            part.slots.append(slot)
    if part is not None:
        yield part
