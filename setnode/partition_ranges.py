"""Cuts a list of envelopes into parts that one query may ask for: IDs of one day and of a few slots.

A query over claims or headers without such bounds is planned over every leaf of every day, locks all of them, and its
backend keeps memory for each (`RECYCLE_AFTER`). The bounds must be constants at planning time (`plan_cache_mode =
force_custom_plan`).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from setnode.limits import LOAD_SLOTS
from sharding.ids import IDS_PER_DAY, slot_of, yymmdd_of


class PartitionRange(NamedTuple):
    """Positions in the list that was cut, with their slots and the bounds of their day: low <= ID < end."""

    positions: list[int]
    slots: list[int]
    low: int
    end: int


def partition_ranges(envelope_ids: Iterable[int]) -> Iterator[PartitionRange]:
    """Cut the list, in order of day and slot; every position is in exactly one part.

    The calendar is not asked: `due` may hold an ID of a day that does not exist.
    """
    order = sorted((yymmdd_of(one), slot_of(one), position) for position, one in enumerate(envelope_ids))
    part: PartitionRange | None = None
    for day, slot, position in order:
        low = day * IDS_PER_DAY
        if part is not None and (part.low != low or (part.slots[-1] != slot and len(part.slots) == LOAD_SLOTS)):
            yield part
            part = None
        if part is None:
            part = PartitionRange([], [], low, low + IDS_PER_DAY)
        part.positions.append(position)
        if not part.slots or part.slots[-1] != slot:
            part.slots.append(slot)
    if part is not None:
        yield part
