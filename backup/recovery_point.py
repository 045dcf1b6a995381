"""The recovery point of a restored cluster: the last commit that it has, as Postgres says at the end of its replay."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_LAST: Final = re.compile(rb"last completed transaction was at log time (\S+ \S+)")


def last_commit(log: Path, since: int = 0) -> datetime | None:
    """Return when the last transaction that was replayed had been committed; None if none was, or nothing says so.

    `log` is the log of the server that replayed, from the byte `since` on: what is before is of attempts that failed.
    With none, the cluster is as its base copy was.
    """
    try:
        found = _LAST.findall(log.read_bytes()[since:])
    except OSError:
        return None
    if not found:
        return None
    try:
        return datetime.fromisoformat(found[-1].decode()).astimezone(UTC)
    except ValueError:
        return None
