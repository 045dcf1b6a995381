"""The run as two pictures: answers by result, and latencies, second by second."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loadtest.svg import svg_axes
from loadtest.tally import Second, Tally

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 9.0, 4.0
_COLOURS: Final = {
    "opened": "#c8102e", "openable": "#e8a33d", "already_opened": "#f3c98b", "sold_out": "#8c8c8c",
    "shown": "#5b8db8", "created": "#3a7d44", "busy": "#6a4c93",
}  # fmt: skip
_OTHER: Final = "#222222"


def draw(tally: Tally, title: str, folder: Path) -> list[str]:
    """Write `answers.svg` and `latency.svg` into the folder, the same bytes for the same tally; returns the names."""
    began = min(tally.seconds, default=0)
    seconds = [tally.seconds.get(at, Second()) for at in range(began, max(tally.seconds, default=0) + 1)]
    folder.mkdir(parents=True, exist_ok=True)
    _picture(folder / "answers.svg", f"{title}: answers a second, by result", "answers/s", _answers, seconds)
    _picture(folder / "latency.svg", f"{title}: latency by second", "ms", _latency, seconds)
    return ["answers.svg", "latency.svg"]


def _picture(path: Path, title: str, unit: str, fill: Any, seconds: list[Second]) -> None:
    with svg_axes(path, WIDTH, HEIGHT) as axes:
        fill(axes, seconds)
        axes.set_title(title)
        axes.set_xlabel("seconds since the first answer")
        axes.set_ylabel(unit)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper right", fontsize="small")


def _answers(axes: "Axes", seconds: list[Second]) -> None:
    names = sorted({name for one in seconds for name in one.results}, key=lambda name: (name not in _COLOURS, name))
    heights = [[float(one.results.get(name, 0)) for one in seconds] for name in names]
    if names:
        colours = [_COLOURS.get(name, _OTHER) for name in names]
        axes.stackplot(range(len(seconds)), heights, labels=names, colors=colours)
    if any(one.users for one in seconds):
        axes.plot([one.users for one in seconds], color="black", linestyle=":", label="people")


def _latency(axes: "Axes", seconds: list[Second]) -> None:
    seen = [(at, one.latency) for at, one in enumerate(seconds) if one.latency.total]
    for percent, colour in ((50, "#5b8db8"), (99, "#c8102e")):
        axes.plot(
            [at for at, _ in seen], [one.percentile(percent) for _, one in seen], label=f"p{percent}", color=colour
        )
    axes.plot([at for at, _ in seen], [one.max_ms for _, one in seen], label="max", color="#8c8c8c", linewidth=0.8)
    axes.set_yscale("log")
