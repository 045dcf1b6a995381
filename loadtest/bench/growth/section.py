"""The section: its three questions one after the other, its rows and its pictures."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from loadtest.bench import pictures
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.growth import alive, more_sets, tables
from loadtest.bench.growth.size import QUICK, Size

QUESTIONS: Final = {"alive": alive.measure, "tables": tables.measure, "sets": more_sets.measure}


async def grow(bench: Bench, size: Size) -> Figures:
    """Measure everything at a given size."""
    return {name: await measure(bench, size) for name, measure in QUESTIONS.items()}


async def _measure(bench: Bench) -> Figures:
    return await grow(bench, QUICK if bench.quick else Size())


def _rows(figures: Figures) -> Iterable[Row]:
    for point in figures["alive"]["points"]:
        more = f"drawn from all: {point['anywhere']:,.0f} /s; {point['in_memory']:,} in memory"
        yield Row(f"{point['alive']:,} envelopes alive", f"{point['a_thousand']:,.0f} opens/s", more)
    for name, rate in figures["tables"]["opens_per_second"].items():
        layout = figures["tables"]["layouts"][name]
        claims = figures["tables"]["claims"] if name == "full" else 0
        more = f"{layout['days']} days x {layout['slots']} slots, {layout['leaves']:,} tables, {claims:,} claims before"
        yield Row(f"day tables, {name}", f"{rate['median']:,.0f} opens/s", more)
    yield from _rows_of_sets(figures["sets"])


def _rows_of_sets(found: Figures) -> Iterable[Row]:
    each, crowd = found["opens_per_second_per_set"], found["crowd_per_set"]
    for count, cpu in found["cpu_us_per_open"].items():
        more = f"setnode and Postgres, payout included; {each:,.0f} opens/s at each, {crowd} at once"
        yield Row(f"{count} SETs at the same load", f"{cpu['median']:.1f} µs/open", more)
    for count, cpu in found["saturated"]["cpu_us_per_open"].items():
        more = f"{crowd} always in flight at each; {found['saturated']['opens_per_second'][count]:,.0f} opens/s in all"
        yield Row(f"{count} SETs saturated", f"{cpu['median']:.1f} µs/open", more)


def _plots(figures: Figures, folder: Path) -> Sequence[str]:
    points, found = figures["alive"]["points"], figures["sets"]
    rates = {name: rate["median"] for name, rate in figures["tables"]["opens_per_second"].items()}
    opens = {
        "a thousand new ones": [point["a_thousand"] for point in points],
        "drawn from all": [point["anywhere"] for point in points],
    }
    steps, counts = [point["alive"] for point in points], [int(count) for count in found["cpu_us_per_open"]]
    costs = {
        name: [one["median"] for one in cpu.values()]
        for name, cpu in {
            "the same load at each": found["cpu_us_per_open"],
            "each saturated": found["saturated"]["cpu_us_per_open"],
        }.items()
    }
    alive_axes = pictures.Axes("Opens a second by envelopes alive", "envelopes alive", "opens/s", log=True)
    sets_axes = pictures.Axes("CPU of an open by SETs at work, setnode and Postgres", "SETs", "µs per open")
    return (
        pictures.lines(folder / "growth-alive.svg", alive_axes, steps, opens),
        pictures.bars(folder / "growth-tables.svg", pictures.Axes("Empty and full day tables", "opens/s"), rates),
        pictures.lines(folder / "growth-sets.svg", sets_axes, counts, costs),
    )


SECTION: Final = Section("growth", "with envelopes alive, full tables, more SETs", _measure, _rows, _plots)
