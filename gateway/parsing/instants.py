"""Instants: RFC 3339 in JSON, milliseconds since the Unix epoch inside."""

import re
from datetime import datetime

from errors import Refused
from runtime.clock import from_ms, to_ms

# fromisoformat alone accepts week dates, dates without a time and instants without an offset.
_rfc3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
).fullmatch


def read_instant(text: str, *, name: str) -> int:
    """Return milliseconds since the epoch; raises Refused `malformed_<name>`."""
    try:
        if _rfc3339(text):
            return to_ms(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        pass
    raise Refused(f"malformed_{name}", f"{name} must be an instant like 2026-02-17T00:00:00+08:00")


def write_instant(milliseconds: int) -> str:
    """Write an instant in UTC with milliseconds."""
    return from_ms(milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")
