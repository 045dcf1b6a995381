"""The command: runs sections, reports; fails where the money or a promise does not hold."""

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
from rich.console import Console
from rich.status import Status

from loadtest.bench import report
from loadtest.bench.figures import Bench, Section
from loadtest.bench.ratios import RATIOS
from loadtest.bench.sections import SECTIONS
from runtime import logs, process


@click.command("bench")
@click.option("--quick", is_flag=True, help="A tenth of the work and fewer rounds.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write every figure to FILE.")
@click.option("--report", "folder", type=click.Path(path_type=Path, file_okay=False), help="Tables, plots into FOLDER.")
@click.option("--only", "names", multiple=True, type=click.Choice([one.name for one in SECTIONS]), help="One section.")
def command(*, quick: bool, file: Path | None, folder: Path | None, names: tuple[str, ...]) -> None:
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
    if folder is not None:
        report.write(folder, chosen, figures)
    report.show(chosen, figures, Console())
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
