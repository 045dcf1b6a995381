"""Words in sentences for people."""

import sys
from pathlib import Path


def as_called(text: str) -> str:
    """Name commands as this one was called: `hongbao …` of an installed program, `./run …` of a checkout."""
    return text.replace("./run ", "hongbao ") if Path(sys.argv[0]).name == "hongbao" else text


def counted(number: int, noun: str) -> str:
    """Return "1 row", "2 rows", "1,000 rows": a count with its noun, which takes an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: int) -> str:
    """Return "1 day 3 hours": a time in days, hours, minutes and seconds, without those of which there are none."""
    said = []
    for noun, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            said.append(counted(number, noun))
    return " ".join(said) or "0 seconds"
