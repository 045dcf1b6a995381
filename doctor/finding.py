"""What a check says: how bad it is, what it is about, what it is, and what to do."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Level(StrEnum):
    """OK: as it should be. NOTE: on purpose, or optional. SOON: will fail. WRONG: fails now, or is open to others."""

    OK = "ok"
    NOTE = "note"
    SOON = "soon"
    WRONG = "wrong"


class Finding(msgspec.Struct, frozen=True):
    """`check`: a stable name. `subject`: the part, file or package. `what`, `do`: a sentence; `do` is "" at OK only."""

    check: str
    level: Level
    subject: str
    what: str
    do: str = ""


def sentence(text: str) -> str:
    """Return what an error says, up to its advice, as a sentence."""
    what = text.partition("; ")[0].rstrip(".")
    return f"{what[:1].upper()}{what[1:]}."


def all_is_well(findings: Iterable[Finding]) -> bool:
    """Say whether nothing fails, and nothing will soon."""
    return not troubles(findings)


def troubles(findings: Iterable[Finding]) -> list[Finding]:
    """Return what fails, or will soon."""
    return [one for one in findings if one.level in (Level.SOON, Level.WRONG)]
