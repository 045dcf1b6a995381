"""Pictures of the benchmark as SVG, the same for the same figures. matplotlib is needed only where one is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envelope.errors import Refused

WIDTH, HEIGHT = 7.0, 3.6
BAR_HEIGHT = 0.45
LEAST_LABELLED = 1 / 25
"""A part that is shorter than this piece of the longest bar has no room for its name."""


@dataclass(frozen=True)
class Axes:
    """What a picture says in words; `log` spreads the horizontal axis."""

    title: str
    x: str
    y: str = ""
    log: bool = False


def lines(path: Path, words: Axes, at: Sequence[float], values: Mapping[str, Sequence[float]]) -> str:
    """Draw a line for each name over `at`; returns the file's name."""
    figure, axes = _canvas(HEIGHT)
    for name, line in values.items():
        axes.plot(at, line, marker="o", label=name)
    if words.log:
        axes.set_xscale("log")
    else:
        axes.set_xticks(list(at))
    axes.set_ylim(bottom=0)
    axes.legend()
    axes.grid(alpha=0.3)
    return _save(figure, axes, words, path)


def bars(path: Path, words: Axes, values: Mapping[str, float]) -> str:
    """Draw a bar for each name; returns the file's name."""
    figure, axes = _canvas(1.2 + BAR_HEIGHT * len(values))
    drawn = axes.barh(list(values), list(values.values()))
    axes.bar_label(drawn, fmt="{:,.0f}", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    return _save(figure, axes, words, path)


def stacked(path: Path, words: Axes, rows: Mapping[str, Mapping[str, float]]) -> str:
    """Draw a bar for each row, made of its named parts; returns the file's name."""
    figure, axes = _canvas(1.6 + BAR_HEIGHT * len(rows))
    longest = max(sum(parts.values()) for parts in rows.values())
    for row, parts in rows.items():
        left = 0.0
        for name, value in parts.items():
            axes.barh(row, value, left=left, edgecolor="white")
            if value > longest * LEAST_LABELLED:
                axes.text(left + value / 2, row, f"{name}\n{value:.0f}", ha="center", va="center", fontsize=6)
            left += value
    axes.invert_yaxis()
    return _save(figure, axes, words, path)


def _canvas(height: float) -> tuple[Any, Any]:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - needed only where a picture is drawn
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise Refused("no_matplotlib", "plots need matplotlib: install the bench requirements") from error
    mpl.rcParams["svg.hashsalt"] = "hongbao"  # identifiers inside the picture do not change from run to run
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _save(figure: Any, axes: Any, words: Axes, path: Path) -> str:
    axes.set(title=words.title, xlabel=words.x, ylabel=words.y)
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path.name
