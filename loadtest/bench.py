"""`hongbao bench`: the small benchmark of engine and HTTP, with the audit at the end."""

import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import loadtest.engine
import loadtest.http
from runtime import logs, process


@click.command("bench")
@click.option("--quick", is_flag=True, help="A tenth of the work: shows that it runs, not how fast it is.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write every figure to FILE.")
def command(*, quick: bool, file: Path | None) -> None:
    """Measure durable opens a second: inside one SET, and over HTTP with everything on this machine.

    Uses scratch folders and leaves nothing behind. Fails when the money does not add up.
    """
    figures = measure(quick=quick)
    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    show(figures, Console())
    sys.exit(0 if figures["http"]["audit_holds"] else 1)


def measure(*, quick: bool) -> dict[str, Any]:
    """Run both parts; returns their figures."""
    logs.set_up("bench", "error")
    process.collect_rarely()
    console = Console(stderr=True)
    with console.status("engine: claims inside one SET"):
        engine_size = {"envelopes": 1_000, "hot": 1, "hot_shares": 5_000} if quick else {}
        engine = asyncio.run(loadtest.engine.run(**engine_size))
    with console.status("http: opens through the gateway"), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        http_size = {"envelopes": 500, "seconds": 1} if quick else {}
        http = asyncio.run(loadtest.http.run(folder / "data", **http_size))
    return {"quick": quick, "engine": engine["results"], "http": asdict(http)}


def show(figures: dict[str, Any], console: Console) -> None:
    """Print the figures as a table."""
    table = Table(box=SIMPLE, header_style="bold")
    table.add_column("what")
    table.add_column("per second", justify="right")
    table.add_column("more")
    for one in figures["engine"]:
        table.add_row(f"engine, {one['workload']}", f"{one['opens_per_second']:,.0f}", f"{one['commits']} commits")
    http = figures["http"]
    more = f"p50 {http['p50_ms']:.1f} ms, p99 {http['p99_ms']:.1f} ms, {http['connections']} connections"
    table.add_row("opens over HTTP", f"{http['opens_per_second']:,.0f}", more)
    table.add_row("creates over HTTP", f"{http['creates_per_second']:,.0f}", "the client is Python")
    console.print(table)
