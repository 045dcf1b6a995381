"""The report of a run: tables on the terminal; a folder with the same as Markdown, the plots and all figures."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from loadtest.bench.figures import Section
from loadtest.bench.ratios import RATIOS
from runtime.tables import print_table

_NOISE = 0.05
"""CPU steal from which on the terminal shows a warning."""


def show(sections: Sequence[Section], figures: dict[str, Any], console: Console) -> None:
    """Print the figures of all sections and the promised ratios."""
    table = Table(box=SIMPLE, header_style="bold")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("more")
    for section in sections:
        for row in section.rows(figures["sections"][section.name]):
            table.add_row(row.what, row.figure, row.more)
    print_table(console, table)
    promises = Table(box=SIMPLE, header_style="bold")
    for column in ("ratio", "value", "bar", "holds"):
        promises.add_column(column, justify="left" if column == "ratio" else "right")
    for what, value, bar, holds in _promises(figures):
        promises.add_row(what, value, bar, "[green]yes[/green]" if holds else "[red]no[/red]")
    print_table(console, promises)
    for audit in figures["audits"]:
        if not audit["holds"]:
            wrong = f"money or answers are not as they should be, {audit['unreconciled_fen']:,} fen unreconciled"
            console.print(f"[red]{audit['section']}: {wrong}[/red]")
    if noisy := _taken(figures, _NOISE):
        console.print(
            f"[yellow]The host gave part of the cores' time to others: {noisy}. Ratios suffer too: a contender that "
            "keeps the cores busy loses more than one that waits for a disk or a lock. Measure again at another "
            "hour.[/yellow]"
        )


def write(folder: Path, sections: Sequence[Section], figures: dict[str, Any]) -> None:
    """Write `figures.json`, the plots, and `README.md` that shows both."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text("\n".join(_markdown(folder, sections, figures)) + "\n", encoding="utf-8")


def _taken(figures: dict[str, Any], least: float) -> str:
    """Name the sections in which the host took at least this part of all cores' time."""
    return ", ".join(f"{name} {part:.0%}" for name, part in figures["stolen"].items() if part >= least)


def _promises(figures: dict[str, Any]) -> Iterator[tuple[str, str, str, bool]]:
    for ratio in RATIOS:
        judged = figures["ratios"].get(ratio.key)
        if judged is not None:
            yield ratio.what, f"{judged['value']:,.2f}", f"{'≤' if ratio.most else '≥'} {ratio.bar:g}", judged["holds"]


def _markdown(folder: Path, sections: Sequence[Section], figures: dict[str, Any]) -> Iterator[str]:
    machine = figures["machine"]
    yield "# One run of `./run bench`" + (" --quick" if figures["quick"] else "")
    yield ""
    sittings = figures["sittings"]
    ran = f"{figures['seconds']:.0f} s in {'one sitting' if sittings == 1 else f'{sittings} sittings'}"
    yield f"{machine['cores']} cores, {machine['machine']}, Python {machine['python']}, {ran}."
    if taken := _taken(figures, 0.0):
        yield f"Of the cores' time the host gave to others meanwhile: {taken}."
    yield "Every figure is in [figures.json](figures.json); [performance.md](../performance.md) tells what they mean."
    yield from ("", "| ratio | value | bar | holds |", "| --- | ---: | ---: | --- |")
    for what, value, bar, holds in _promises(figures):
        yield f"| {what} | {value} | {bar} | {'yes' if holds else '**no**'} |"
    for section in sections:
        found = figures["sections"][section.name]
        yield from ("", f"## {section.name}: {section.title}", "", "| what | figure | more |", "| --- | ---: | --- |")
        for row in section.rows(found):
            yield f"| {row.what.strip()} | {row.figure} | {row.more} |"
        for picture in section.plots(found, folder):
            name = Path(picture).name
            yield from ("", f"![{name.removesuffix('.svg')}]({name})")
