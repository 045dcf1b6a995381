"""The command: runs sections, writes JSON and plots, shows tables; fails where the money or a promise does not hold."""

import asyncio
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import click
import uvloop
from rich.box import SIMPLE
from rich.console import Console
from rich.status import Status
from rich.table import Table

from loadtest.bench.figures import Bench, Section
from loadtest.bench.ratios import RATIOS
from loadtest.bench.sections import SECTIONS
from runtime import logs, process


@click.command("bench")
@click.option("--quick", is_flag=True, help="A tenth of the work and fewer rounds.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write every figure to FILE.")
@click.option("--plots", "pictures", type=click.Path(path_type=Path, file_okay=False), help="Draw plots into FOLDER.")
@click.option("--only", "names", multiple=True, type=click.Choice([one.name for one in SECTIONS]), help="One section.")
def command(*, quick: bool, file: Path | None, pictures: Path | None, names: tuple[str, ...]) -> None:
    """Measure what durable opens cost here, against the other ways to do it.

    Uses scratch folders and leaves nothing behind. Exit status 0 when all money adds up and every promised ratio that
    was measured holds.
    """
    logs.set_up("bench", "error")
    process.collect_rarely()
    chosen = [one for one in SECTIONS if not names or one.name in names]
    try:
        figures = uvloop.run(_until_told(measure(chosen, quick=quick, console=Console(stderr=True))))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        for one in chosen:
            one.plots(figures["sections"][one.name], pictures)
    show(chosen, figures, Console())
    sys.exit(0 if figures["holds"] else 1)


async def _until_told(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Await `work`; SIGTERM ends it as Ctrl-C does, so that every server is stopped and every folder removed."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


async def measure(sections: Sequence[Section], *, quick: bool, console: Console) -> dict[str, Any]:
    """Run the sections; returns everything that `--json` writes."""
    started = time.perf_counter()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="hongbao-bench-") as name, console.status("") as status:
        folder = Path(name)
        folder.chmod(0o755)
        bench = Bench(folder, quick, lambda _: None)
        for number, section in enumerate(sections, 1):
            bench.say = _sayer(status, f"{number}/{len(sections)} {section.name}: {section.title}")
            bench.say("")
            found[section.name] = await section.measure(bench)
    ratios = {ratio.key: judged for ratio in RATIOS if (judged := ratio.judge(found)) is not None}
    return {
        "quick": quick,
        "machine": machine(),
        "seconds": round(time.perf_counter() - started, 1),
        "sections": found,
        "ratios": ratios,
        "audits": [vars(one) for one in bench.audits],
        "holds": all(one.holds for one in bench.audits) and all(one["holds"] for one in ratios.values()),
    }


def _sayer(status: Status, prefix: str) -> Any:
    return lambda text: status.update(f"{prefix}{' · ' if text else ''}{text}")


def machine() -> dict[str, Any]:
    """Say what this ran on."""
    return {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}


def show(sections: Sequence[Section], figures: dict[str, Any], console: Console) -> None:
    """Print the figures of all sections and the promised ratios."""
    table = Table(box=SIMPLE, header_style="bold")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("more")
    for section in sections:
        for row in section.rows(figures["sections"][section.name]):
            table.add_row(row.what, row.figure, row.more)
    console.print(table)
    promises = Table(box=SIMPLE, header_style="bold")
    for column in ("ratio", "value", "bar", "holds"):
        promises.add_column(column, justify="left" if column == "ratio" else "right")
    for ratio in RATIOS:
        judged = figures["ratios"].get(ratio.key)
        if judged is not None:
            bar = f"{'≤' if ratio.most else '≥'} {ratio.bar:g}"
            holds = "[green]yes[/green]" if judged["holds"] else "[red]no[/red]"
            promises.add_row(ratio.what, f"{judged['value']:.2f}", bar, holds)
    console.print(promises)
    for audit in figures["audits"]:
        if not audit["holds"]:
            console.print(
                f"[red]the money of {audit['section']} does not add up: {audit['unreconciled_fen']} fen[/red]"
            )
