"""What sections share: the run that they are part of, what they return, and how rounds become one figure."""

import statistics
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
"""Whatever a section found, ready for JSON. Rates are per second, times in ms, CPU in µs, sizes in bytes."""


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, its figure as text, and details."""

    what: str
    figure: str
    more: str = ""


@dataclass(frozen=True)
class Audit:
    """Whether the money of a section added up, by the audit or by a contender's own check."""

    section: str
    holds: bool
    unreconciled_fen: int = 0


@dataclass
class Bench:
    """One run. `folder` is scratch that every account of this machine may enter; `say` shows progress."""

    folder: Path
    quick: bool
    say: Callable[[str], None]
    audits: list[Audit] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """Turns of each contender."""
        return 3 if self.quick else 7

    def scratch(self, name: str) -> Path:
        """Return an empty folder of this run."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        return folder

    def audit(self, section: str, *, holds: bool, unreconciled_fen: int = 0) -> None:
        """Record the result of an audit; the run fails when one of them does not hold."""
        self.audits.append(Audit(section, holds, unreconciled_fen))


@dataclass(frozen=True)
class Section:
    """A part of the benchmark. `measure` returns figures; `rows` and `plots` only look at them.

    `plots` writes pictures into a folder and returns their names.
    """

    name: str
    title: str
    measure: Callable[[Bench], Awaitable[Figures]]
    rows: Callable[[Figures], Iterable[Row]]
    plots: Callable[[Figures, Path], Iterable[str]] = lambda _figures, _folder: ()


async def interleaved(
    rounds: int, contenders: Mapping[str, Callable[[], Awaitable[float]]]
) -> dict[str, dict[str, Any]]:
    """Let each contender have its turn, `rounds` times, so that noise that comes and goes meets all of them.

    Returns `{name: {"median": …, "runs": […]}}`.
    """
    runs: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, turn in contenders.items():
            runs[name].append(await turn())
    return {name: {"median": statistics.median(seen), "runs": seen} for name, seen in runs.items()}
