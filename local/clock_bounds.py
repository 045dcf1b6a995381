"""How far a sandbox's clock may be moved: in one move, and in all."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from errors import Refused
from schema.day_tables import AHEAD_DAYS
from sharding.ids import LAST_YEAR

MOST_DAYS: Final = 400
"""In one move: a year, and what is kept of it. A mistyped figure goes no further."""
LATEST: Final = datetime(LAST_YEAR, 12, 31, tzinfo=UTC) - timedelta(days=AHEAD_DAYS + 1)
"""In all: an envelope's ID holds no year after `sharding.ids.LAST_YEAR`, and tables are made ahead."""
_LONGEST: Final = 40
"""Characters of a move; `+400d23h59m59s` has fourteen."""
_MOVE: Final = re.compile(r"\+(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
_SECONDS: Final = (86_400, 3_600, 60, 1)
_HOW: Final = "write + and how far, in days, hours, minutes and seconds, such as +24h, +90m, +3d or +1d12h"


def read_move(text: str) -> timedelta:
    """Return by how much `text` moves the clock: `+24h`, `+90m`, `+3d`, `+1d12h`.

    Raises Refused: `move_malformed`; `move_backwards`, also for none at all; `move_too_far`, above MOST_DAYS.
    """
    if text.startswith("-"):
        raise Refused(
            "move_backwards",
            f"the clock moves ahead only, not by {text[:_LONGEST]}: an envelope that has ended never opens again",
        )
    matched = _MOVE.fullmatch(text) if len(text) <= _LONGEST else None
    if matched is None or not any(matched.groups()):
        raise Refused("move_malformed", f"{text[:_LONGEST]!r} is no move of the clock: {_HOW}")
    seconds = sum(int(number or 0) * unit for number, unit in zip(matched.groups(), _SECONDS, strict=True))
    if not seconds:
        raise Refused("move_backwards", f"{text} would not move the clock: {_HOW}")
    if seconds > MOST_DAYS * _SECONDS[0]:
        raise Refused("move_too_far", f"{text} is too far: {MOST_DAYS} days at most in one move")
    return timedelta(seconds=seconds)


def check_latest(there: datetime) -> None:
    """Raise Refused `move_too_far` for an instant that no envelope's ID could have."""
    if there > LATEST:
        raise Refused(
            "move_too_far",
            f"it would be {there:%Y-%m-%d} then, and a sandbox ends on {LATEST:%Y-%m-%d}: IDs of envelopes hold no "
            f"year after {LAST_YEAR}; begin a new sandbox in another folder with --data",
        )
