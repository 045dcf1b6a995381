"""`hongbao rotate drill`: the whole cycle of a day on a scratch stack, with the figures that a DBA plans by."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from installation.finding import find
from loadtest.drill.context import QUICK, DrillContext, Size
from loadtest.drill.stages import run
from loadtest.idle_stack import idle_stack
from local.config import StackConfig
from machine.account import server_account
from runtime.tables import print_table
from runtime.wording import counted


@dataclass(frozen=True)
class Bar:
    """What a figure must be, at most or at least; without either it is only reported. `speed`: of the machine's."""

    what: str
    most: float | None = None
    least: float | None = None
    speed: bool = False

    def holds(self, value: float) -> bool:
        """Return whether the value reaches the bar."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)


BARS: Final[dict[str, Bar]] = {
    "load_s": Bar("making the past day, s"),
    "prove_and_fence_s": Bar("prove, fence, prove again, s"),
    "detach_s": Bar("detach and move all tables of a day, s", most=1.0, speed=True),
    "detach_with_reader_s": Bar("the same with a reader in the way for 0.8 s, s"),
    "calm_p999_ms": Bar("opens of today before, p99.9, ms"),
    "stall_p999_ms": Bar("opens of today meanwhile, p99.9, ms", most=50.0, speed=True),
    "stall_most_ms": Bar("the slowest of them, ms"),
    "export_per_s": Bar("export, claims/s", least=100_000, speed=True),
    "verify_per_s": Bar("verify by reading back, claims/s", least=100_000, speed=True),
    "export_mb": Bar("memory of the process that exports and verifies, MB", most=300.0),
    "bytes_per_claim": Bar("Parquet, bytes a claim", most=25.0),
    "cold_read_ms": Bar("detail of an archived envelope, median, ms", most=100.0, speed=True),
    "cold_read_most_ms": Bar("the slowest of 50, ms"),
    "move_opens_per_s": Bar("opens/s during both moves"),
    "move_failed": Bar("opens failed during a move by time and a live one", most=0),
    "live_move_stall_s": Bar("stall of the live move, s", most=2.0),
    "build_31_days_s": Bar("tables of 31 days for one SET, s (from seven days)", most=60.0, speed=True),
    "backend_mb": Bar("memory of the heaviest kind of backend, MB", most=60.0),
    "audit_violations": Bar("violations in the audit at the end", most=0),
    "audit_s": Bar("the audit, s"),
}


def drill(*, quick: bool) -> dict[str, Any]:
    """Run the drill in a scratch folder, which is removed; returns figures, failures and whether all holds."""
    size = QUICK if quick else Size()
    folder = Path(tempfile.mkdtemp(prefix="hongbao-drill-"))
    folder.chmod(0o711 if server_account().drop_privileges else 0o700)
    try:
        done = asyncio.run(_drill(folder, size))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return conclude(done.figures, done.failures, size, quick=quick)


def conclude(figures: dict[str, Any], failures: list[str], size: Size, *, quick: bool) -> dict[str, Any]:
    """Return what is reported of a drill: `missed` are figures that do not reach their bar, `slow` those that may."""
    missing = [name for name in BARS if name not in figures]
    missed = [name for name, value in figures.items() if name in BARS and not BARS[name].holds(value)]
    # A tenth of the work on a machine that is not the reference says little about speed: told, and no failure.
    slow = [name for name in missed if quick and BARS[name].speed]
    return {
        **figures,
        "quick": quick,
        "claims": size.claims,
        "slots_per_set": size.slots // 2,
        "missed": missed,
        "slow": slow,
        "failures": failures,
        "holds": not (missing or set(missed) - set(slow) or failures),
    }


async def _drill(folder: Path, size: Size) -> DrillContext:
    console = Console(stderr=True)
    config = StackConfig(data=folder / "data", port=0, sets=2, servers=1, slots=size.slots, notify=lambda _: None)
    with console.status("starting a stack") as status:
        async with idle_stack(config):
            done = DrillContext(find(config.data), size, folder, status.update)
            await run(done)
            return done


def show(found: dict[str, Any], console: Console) -> None:
    """Print the figures with their bars, then the failures."""
    table = Table("figure", "seen", "bar", "holds")
    for name, bar in BARS.items():
        if name not in found:
            continue
        limit = f"≤ {bar.most:,g}" if bar.most is not None else f"≥ {bar.least:,g}" if bar.least is not None else ""
        slow = "slower than the reference machine" if name in found["slow"] else "no"
        verdict = ("yes" if bar.holds(found[name]) else slow) if limit else ""
        table.add_row(bar.what, f"{found[name]:,}", limit, verdict)
    print_table(console, table)
    for one in found["failures"]:
        console.print(f"[red]fails[/red] {one}")
    console.print(_conclusion(found))


def _conclusion(found: dict[str, Any]) -> str:
    if not found["holds"]:
        return "[red]the cycle does not hold: see the rows and sentences above[/red]"
    slow = found["slow"]
    if not slow:
        return "[green]the cycle holds[/green]"
    verb = "is" if len(slow) == 1 else "are"
    return f"[green]the cycle holds[/green]; {counted(len(slow), 'speed')} {verb} below the reference machine's"
