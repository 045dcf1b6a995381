"""Pictures of the sections that compare contenders."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loadtest.bench.figures import Figures
from loadtest.bench.http import NAMES as HTTP_NAMES
from loadtest.svg import svg_axes

OURS, THEIRS, MARK = "#c0392b", "#7f8c8d", "#2c3e50"


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
        drawn.append(f"engine-{key}.svg")
        with svg_axes(folder / drawn[-1], 7.5, 0.6 + 0.3 * len(medians)) as axes:
            bars(axes, workload["title"], medians, {names["ours"]})
    return drawn


def http(figures: Figures, folder: Path) -> list[str]:
    """Draw the contenders of section (b)."""
    medians = {HTTP_NAMES[name]: seen["median"] for name, seen in figures["contenders"].items()}
    mine = {HTTP_NAMES[name] for name in ("ours", "ours_hot", "create")}
    with svg_axes(folder / "http.svg", 7.5, 2.9) as axes:
        bars(axes, f"{figures['connections']} connections of wrk", medians, mine)
    return ["http.svg"]


def connections(figures: Figures, folder: Path) -> list[str]:
    """Draw throughput and p99 against connections, and where our cap sits."""
    with svg_axes(folder / "connections.svg", 8.5, 3.0, columns=len(figures["curves"])) as panels:
        for axes, (name, curve) in zip(panels, figures["curves"].items(), strict=True):
            _curve(axes, name, curve, figures["cap"])
    return ["connections.svg"]


def _curve(axes: Any, name: str, curve: Sequence[Mapping[str, float]], cap: int) -> None:
    titles = {"hot": "one hot envelope", "many": "many envelopes"}
    sizes = [point["connections"] for point in curve]
    axes.plot(sizes, [point["per_second"] for point in curve], "o-", color=THEIRS)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("connections")
    axes.set_ylabel("opens per second")
    axes.set_title(f"pessimistic lock, {titles[name]}")
    axes.axvline(cap, color=OURS, linestyle=":")
    axes.annotate(f"our cap: {cap}", (cap, 0), xytext=(4, 6), textcoords="offset points")
    tail = axes.twinx()
    tail.plot(sizes, [point["p99_ms"] for point in curve], "s--", color=MARK)
    tail.set_yscale("log")
    tail.set_ylabel("p99 of the transaction, ms (dashed)")
