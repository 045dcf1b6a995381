"""How often parts have ended by themselves, by the supervisor's log."""

from collections import Counter
from datetime import UTC, datetime

import msgspec

from local.supervisor_log import ENDED
from machine.logfile import LogFile
from runtime.unreadable import UNREADABLE

READ_BYTES = 1_000_000
"""Thousands of lines: a part that ends at once is started again every ten seconds."""


class _Line(msgspec.Struct):
    timestamp: datetime
    event: str


def count_ends(log: LogFile, since: datetime) -> Counter[str]:
    """Return how often each part has ended after `since` and was started again; only the last READ_BYTES are read."""
    lines = map(_read, log.last(READ_BYTES).splitlines())
    return Counter(one.event.partition(ENDED)[0] for one in lines if ENDED in one.event and one.timestamp > since)


def _read(line: bytes) -> _Line:
    """Return a line; one that was cut, at the beginning of what is read, is empty and long ago."""
    try:
        return msgspec.json.decode(line, type=_Line)
    except UNREADABLE:
        return _Line(datetime.min.replace(tzinfo=UTC), "")
