"""The command: runs the sections and reports; exit status 1 where the money or a promised ratio does not hold."""

import asyncio
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import uvloop
from rich.console import Console
from rich.status import Status

from errors import Refused
from loadtest.bench import report
from loadtest.bench.figures import Audit, Bench, Section
from loadtest.bench.ratios import RATIOS
from loadtest.cpu_steal import CpuSteal
from runtime import logs, process
from runtime.reporting import print_output

try:
    from loadtest.bench.sections import SECTIONS
except ModuleNotFoundError as error:
    raise Refused(
        "bench_incomplete", f"the benchmark needs {error.name}: run it from a checkout, where ./run installs it"
    ) from error

_WRITTEN = {"quick", "machine", "seconds", "sittings", "sections", "stolen", "ratios", "audits", "holds"}
"""Keys that a file must have to be resumed; `lasted`, the seconds of each section, came later."""


@click.command("bench")
@click.option("--quick", is_flag=True, help="A tenth of the work and fewer rounds.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write every figure to FILE.")
@click.option("--resume", is_flag=True, help="Keep what FILE has of an earlier sitting, measure the rest.")
@click.option("--report", "folder", type=click.Path(path_type=Path, file_okay=False), help="Tables, plots into FOLDER.")
@click.option("--only", "names", multiple=True, type=click.Choice([one.name for one in SECTIONS]), help="One section.")
def command(*, quick: bool, file: Path | None, resume: bool, folder: Path | None, names: tuple[str, ...]) -> None:
    """Measure what durable opens cost here, against the other ways to do it.

    Uses scratch folders and leaves nothing behind but FILE, which is written after every section. Exit status 0 when
    all money adds up and every promised ratio that was measured holds.
    """
    logs.set_up("bench", "error")
    process.tune_gc()
    kept = _kept(file, quick=quick) if resume else {}
    known = kept.get("sections", {})
    chosen = [one for one in SECTIONS if not names or one.name in names or one.name in known]
    run = Run(chosen, quick, file, kept)
    try:
        figures = uvloop.run(_until_told(run.measure(Console(stderr=True))))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if folder is not None:
        report.write(folder, chosen, figures)
    print_output(lambda console: report.show(chosen, figures, console))
    sys.exit(0 if figures["holds"] else 1)


def _kept(file: Path | None, *, quick: bool) -> dict[str, Any]:
    """Return what an earlier sitting wrote; raises UsageError where it is of another machine, size or version."""
    if file is None:
        raise click.UsageError("--resume goes on with a FILE: name it with --json")
    if not file.exists():
        return {}
    try:
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        same = kept["quick"] == quick and kept["machine"] == machine()
        whole = kept.keys() >= _WRITTEN
    except (ValueError, KeyError, TypeError):
        raise click.UsageError(f"{file} is not what ./run bench writes; give another --json FILE") from None
    if not whole:
        raise click.UsageError(f"{file} is of another version of ./run bench; measure anew, without --resume")
    if not same:
        raise click.UsageError(f"{file} is of another machine or size of run; measure anew, without --resume")
    return kept


async def _until_told(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Await `work`; SIGTERM cancels it as Ctrl-C does, so that every server is stopped and every folder removed."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


@dataclass(frozen=True)
class Run:
    """One run, in one sitting or several: `kept` is what earlier sittings wrote into `file`."""

    sections: Sequence[Section]
    quick: bool
    file: Path | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)

    async def measure(self, console: Console) -> dict[str, Any]:
        """Run the sections that are missing; returns everything that `--json` writes."""
        started = time.perf_counter()
        found: dict[str, Any] = dict(self.kept.get("sections", {}))
        kept_audits = [Audit(**one) for one in self.kept.get("audits", ())]
        taken: dict[str, float] = dict(self.kept.get("stolen", {}))
        lasted: dict[str, float] = dict(self.kept.get("lasted", {}))
        # Figures are kept, but judged anew: bars may have changed since.
        figures = {**self.kept, **_judged(found, kept_audits)}
        missing = [one for one in self.sections if one.name not in found]
        with tempfile.TemporaryDirectory(prefix="hongbao-bench-") as name, console.status("") as status:
            folder = Path(name)
            folder.chmod(0o755)
            bench = Bench(folder, self.quick, lambda _: None, kept_audits)
            for number, section in enumerate(missing, 1):
                bench.say = _sayer(status, f"{number}/{len(missing)} {section.name}: {section.title}")
                bench.say("")
                stolen, began = CpuSteal(), time.perf_counter()
                found[section.name] = await section.measure(bench)
                taken[section.name] = round(stolen.part(), 3)
                lasted[section.name] = round(time.perf_counter() - began, 1)
                figures = {
                    "quick": self.quick,
                    "machine": machine(),
                    "seconds": round(self.kept.get("seconds", 0.0) + time.perf_counter() - started, 1),
                    "sittings": self.kept.get("sittings", 0) + 1,
                    "sections": dict(found),
                    "stolen": dict(taken),
                    "lasted": dict(lasted),
                    "audits": [vars(one) for one in bench.audits],
                    **_judged(found, bench.audits),
                }
                if self.file is not None:
                    _write(self.file, figures)
        if not missing and self.file is not None:
            _write(self.file, figures)
        return figures


def _judged(found: Mapping[str, Any], audits: Sequence[Audit]) -> dict[str, Any]:
    """Return each ratio that the sections `found` allow to compute, and whether all of them and all audits hold."""
    ratios = {ratio.key: judged for ratio in RATIOS if (judged := ratio.judge(found)) is not None}
    return {
        "ratios": ratios,
        "holds": all(one.holds for one in audits) and all(one["holds"] for one in ratios.values()),
    }


def _write(file: Path, figures: Mapping[str, Any]) -> None:
    """Replace the file in one step: it holds the figures of an hour."""
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    beside.replace(file)


def _sayer(status: Status, prefix: str) -> Any:
    return lambda text: status.update(f"{prefix}{' · ' if text else ''}{text}")


def machine() -> dict[str, Any]:
    """Return what this ran on."""
    return {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
