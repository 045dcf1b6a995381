"""Words in sentences for people."""

from pathlib import Path

RUNNER = Path(__file__).parents[1] / "run"
"""There in a checkout; an installed `hongbao` has no such file beside its packages."""

ELSEWHERE = "if it is elsewhere, say where: --data FOLDER, or HONGBAO_DATA=FOLDER"
"""What is forgotten most often in a second terminal."""


def as_called(text: str) -> str:
    """Name commands as they are called here: `./run …` in a checkout, `hongbao …` where that is installed."""
    return text if RUNNER.exists() else text.replace("./run ", "hongbao ")


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
