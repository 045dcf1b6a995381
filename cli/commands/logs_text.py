"""Lines of a log as a person reads them: `hongbao logs --text`."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

_KNOWN: Final = ("timestamp", "level", "event", "process", "exception")
"""Members that have a place of their own; of the process the file's name tells."""
_SECONDS: Final = len("2026-11-27T17:39:26")


def lines(chunks: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a log that comes in pieces, each as `line`; one that has not ended yet waits for its end."""
    rest = ""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split("\n")
        yield from map(line, whole)


def line(text: str) -> str:
    """Return a line of JSON as time, level, what happened, and `name=value` of the rest; any other line as it is."""
    try:
        told = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if not isinstance(told, dict) or "event" not in told:
        return text
    at = str(told.get("timestamp", ""))[:_SECONDS].replace("T", " ")
    more = [f"{name}={_value(value)}" for name, value in told.items() if name not in _KNOWN]
    said = " ".join([f"{at} UTC", f"{told.get('level', 'info'):7}", str(told["event"]), *more])
    return "\n".join([said, *str(told.get("exception", "")).splitlines()])


def _value(value: Any) -> str:
    if isinstance(value, str) and value and not any(one in value for one in ' "='):
        return value
    return msgspec.json.encode(value).decode()
