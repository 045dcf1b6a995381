"""The run as two pictures: what became of people at each step, and the storm second by second."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from loadtest.overload.figures import Overload
from loadtest.svg import svg_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 9.0, 4.0
_USEFUL: Final = "#c8102e"
_REFUSED: Final = "#e8a33d"
_NOTHING: Final = "#222222"


def draw(report: Overload, folder: Path) -> list[str]:
    """Write `goodput.svg` and `storm.svg` into the folder; returns the names."""
    folder.mkdir(parents=True, exist_ok=True)
    with svg_axes(folder / "goodput.svg", WIDTH, HEIGHT) as axes:
        _goodput(axes, report)
    with svg_axes(folder / "storm.svg", WIDTH, HEIGHT) as axes:
        _storm(axes, report)
    return ["goodput.svg", "storm.svg"]


def _goodput(axes: "Axes", report: Overload) -> None:
    labels = [f"{one.times:g}" for one in report.steps]
    useful = [one.seen.useful_per_s for one in report.steps]
    refused = [one.seen.refused / one.seen.seconds for one in report.steps]
    nothing = [one.seen.for_nothing * one.seen.rate for one in report.steps]
    axes.bar(labels, useful, color=_USEFUL, label="useful")
    axes.bar(labels, refused, bottom=useful, color=_REFUSED, label="told busy at once")
    below = [a + b for a, b in zip(useful, refused, strict=True)]
    axes.bar(labels, nothing, bottom=below, color=_NOTHING, label="waited for nothing")
    axes.axhline(report.best, color="black", linestyle=":", linewidth=0.8, label="the best")
    axes.set_title("what became of those who came")
    axes.set_xlabel("times the best")
    axes.set_ylabel("people a second")
    axes.legend(loc="upper left", fontsize="small")


def _storm(axes: "Axes", report: Overload) -> None:
    storm = report.storm
    seconds = [at * storm.slot_s for at in range(len(storm.useful))]
    rates = [[one / storm.slot_s for one in row] for row in (storm.useful, storm.refused, storm.gave_up)]
    colours = (_USEFUL, _REFUSED, _NOTHING)
    axes.stackplot(seconds, rates, labels=["useful", "told busy at once", "gave up"], colors=colours)
    axes.set_title("half load, a retry storm, half load again")
    axes.set_xlabel("seconds")
    axes.set_ylabel("answers a second")
    axes.legend(loc="upper right", fontsize="small")
