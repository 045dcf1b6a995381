"""Pictures for any section: lines, bars, stacked bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtest.svg import svg_axes

WIDTH, HEIGHT = 7.0, 3.6
BAR_HEIGHT = 0.45
LEAST_LABELLED = 1 / 25
"""A part shorter than this fraction of the longest bar gets no label: it would not fit."""


@dataclass(frozen=True)
class Axes:
    """What a picture says in words; `log` spreads the horizontal axis."""

    title: str
    x: str
    y: str = ""
    log: bool = False


def lines(path: Path, words: Axes, at: Sequence[float], values: Mapping[str, Sequence[float]]) -> str:
    """Draw a line for each name over `at`; returns the file's name."""
    with svg_axes(path, WIDTH, HEIGHT) as axes:
        for name, line in values.items():
            axes.plot(at, line, marker="o", label=name)
        if words.log:
            axes.set_xscale("log")
        else:
            axes.set_xticks(list(at))
        axes.set_ylim(bottom=0)
        axes.legend()
        axes.grid(alpha=0.3)
        _say(axes, words)
    return path.name


def bars(path: Path, words: Axes, values: Mapping[str, float]) -> str:
    """Draw a bar for each name; returns the file's name."""
    with svg_axes(path, WIDTH, 1.2 + BAR_HEIGHT * len(values)) as axes:
        drawn = axes.barh(list(values), list(values.values()))
        axes.bar_label(drawn, fmt="{:,.0f}", padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        _say(axes, words)
    return path.name


def stacked(path: Path, words: Axes, rows: Mapping[str, Mapping[str, float]]) -> str:
    """Draw a bar for each row, made of its named parts; returns the file's name."""
    longest = max(sum(parts.values()) for parts in rows.values())
    with svg_axes(path, WIDTH, 1.6 + BAR_HEIGHT * len(rows)) as axes:
        for row, parts in rows.items():
            left = 0.0
            for name, value in parts.items():
                axes.barh(row, value, left=left, edgecolor="white")
                if value > longest * LEAST_LABELLED:
                    axes.text(left + value / 2, row, f"{name}\n{value:.0f}", ha="center", va="center", fontsize=6)
                left += value
        axes.invert_yaxis()
        _say(axes, words)
    return path.name


def _say(axes: Any, words: Axes) -> None:
    axes.set(title=words.title, xlabel=words.x, ylabel=words.y)
