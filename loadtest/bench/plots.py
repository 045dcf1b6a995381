"""Pictures of figures: small SVGs, the same bytes for the same figures. matplotlib is imported when one is drawn."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from loadtest.bench.figures import Figures
from loadtest.bench.http import NAMES as HTTP_NAMES

OURS, THEIRS, MARK = "#c0392b", "#7f8c8d", "#2c3e50"
_SALT = "hongbao"


def new(width: float, height: float, *, columns: int = 1) -> tuple[Any, Any]:
    """Return a figure and its axes (one, or an array of `columns`)."""
    # Only needed where pictures are asked for. A Figure by itself is drawn by Agg and by no window system.
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    # Text as text keeps them small; the salt keeps the names inside them the same.
    mpl.rcParams.update({"svg.hashsalt": _SALT, "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def save(figure: Any, folder: Path, name: str) -> str:
    """Write `name`.svg without a date; returns the file's name."""
    figure.savefig(folder / f"{name}.svg", format="svg", metadata={"Date": None, "Creator": None})
    return f"{name}.svg"


def bars(axes: Any, title: str, medians: Mapping[str, float], ours: Iterable[str]) -> None:
    """Draw rates as bars on a log scale, each with its number, the first on top."""
    mine = set(ours)
    names = list(medians)
    colours = [OURS if name in mine else THEIRS for name in names]
    drawn = axes.barh(names, [medians[name] for name in names], color=colours)
    axes.bar_label(drawn, labels=[f"{medians[name]:,.0f}" for name in names], padding=3)
    axes.set_xscale("log")
    axes.set_xlim(right=max(medians.values(), default=1.0) * 5)
    axes.set_xlabel("per second (log scale)")
    axes.set_title(title)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)


def engine(figures: Figures, folder: Path) -> list[str]:
    """Draw a picture for each workload of section (a)."""
    names = figures["names"]
    drawn = []
    for key, workload in figures["workloads"].items():
        medians = {names[name]: seen["median"] for name, seen in workload["contenders"].items() if seen["median"]}
        figure, axes = new(7.5, 0.6 + 0.3 * len(medians))
        bars(axes, workload["title"], medians, {names["ours"]})
        drawn.append(save(figure, folder, f"engine-{key}"))
    return drawn


def http(figures: Figures, folder: Path) -> list[str]:
    """Draw the contenders of section (b)."""
    medians = {HTTP_NAMES[name]: seen["median"] for name, seen in figures["contenders"].items()}
    figure, axes = new(7.5, 2.9)
    mine = {HTTP_NAMES[name] for name in ("ours", "ours_hot", "create")}
    bars(axes, f"{figures['connections']} connections of wrk", medians, mine)
    return [save(figure, folder, "http")]


def connections(figures: Figures, folder: Path) -> list[str]:
    """Draw throughput and p99 against connections, and where our cap sits."""
    figure, panels = new(8.5, 3.0, columns=len(figures["curves"]))
    titles = {"hot": "one hot envelope", "many": "many envelopes"}
    for axes, (name, curve) in zip(panels, figures["curves"].items(), strict=True):
        sizes = [point["connections"] for point in curve]
        axes.plot(sizes, [point["per_second"] for point in curve], "o-", color=THEIRS)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("connections")
        axes.set_ylabel("opens per second")
        axes.set_title(f"pessimistic lock, {titles[name]}")
        axes.axvline(figures["cap"], color=OURS, linestyle=":")
        axes.annotate(f"our cap: {figures['cap']}", (figures["cap"], 0), xytext=(4, 6), textcoords="offset points")
        tail = axes.twinx()
        tail.plot(sizes, [point["p99_ms"] for point in curve], "s--", color=MARK)
        tail.set_yscale("log")
        tail.set_ylabel("p99 of the transaction, ms (dashed)")
    return [save(figure, folder, "connections")]
