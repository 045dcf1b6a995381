"""`hongbao hosts`: a region of hosts on this machine, to look at or to drill."""

import asyncio
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from hosts.drill.report import report_of, show
from hosts.drill.run import SHORT, STEPS, Outcome, Pace, drill, steps_of
from hosts.plan import ETCDS, Plan
from hosts.plan import SHORT as SHORT_PLAN
from hosts.region import Region, region
from local.config import print_on_stderr
from runtime.reporting import json_option, print_output, print_report

_STEPS = ", ".join(f"{one.letter} {one.about}" for one in STEPS)
SHORT_PACE = Pace(rate=25.0, calm_s=3.0, opens=1_000)
LONG_RATE, LONG_CALM_S, LONG_OPENS = 60.0, 15.0, 20_000

folder_option = click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where the hosts' disks are made, and removed again.  [default: the folder for temporary files]",
)  # fmt: skip


@click.group("hosts")
def command() -> None:
    """Run a region on this machine: hosts that can be lost, in network namespaces. As root; nothing of it stays."""


@command.command("up")
@folder_option
def up(*, folder: Path | None) -> None:
    """Start three etcd, two SETs and a wallet whose Postgres fail over, setnodes, gateways, nginx; until Ctrl-C."""
    asyncio.run(_up(folder))


@command.command("drill")
@click.option("--short", is_flag=True, help=f"Steps {', '.join(SHORT)} on a smaller region, in about two minutes.")
@click.option("--only", metavar="STEP,…", help=f"Only these: {_STEPS}.")
@click.option("--opens", type=click.IntRange(1), help="Acknowledged opens in all.  [default: 20000; --short: 1000]")
@click.option("--rate", type=click.FloatRange(1), help="Opens a second for each SET.  [default: 60; --short: 25]")
@folder_option
@json_option
def drill_(
    *, short: bool, only: str | None, opens: int | None, rate: float | None, folder: Path | None, as_json: bool
) -> None:
    """Lose, cut off, freeze, upgrade, move and restore under load; prove after each that nothing acknowledged is lost.

    Every request and every answer is written into a journal, which is compared with the rows; the same users are asked
    again, and the audit must hold. Exit status 0 only if nothing is missing or wrong, no user stayed unanswered, and
    the times are within their bounds.
    """
    letters = only.split(",") if only else list(SHORT) if short else [one.letter for one in STEPS]
    base = SHORT_PACE if short else Pace(LONG_RATE, LONG_CALM_S, LONG_OPENS)
    pace = Pace(rate or base.rate, base.calm_s, opens or base.opens)
    steps = steps_of(letters)
    plan = SHORT_PLAN if short and set(letters) <= set(SHORT) else Plan()
    found = asyncio.run(_drill(plan, steps, pace, folder))
    print_report(found, as_json=as_json, show=partial(show, found))
    raise SystemExit(0 if found["holds"] else 1)


async def _drill(plan: Plan, steps: Sequence[Any], pace: Pace, folder: Path | None) -> dict[str, Any]:
    notify = _notify()

    def done(outcome: Outcome) -> None:
        holds = "nothing lost" if outcome.found.holds else "[differs]"
        notify(f"{outcome.step.letter}: {outcome.silence_s:.1f} s silent, {holds} {outcome.error}".rstrip())

    async with region(plan, notify, folder) as made:
        notify(f"up: {made.url}")
        return report_of(*await drill(made, steps, pace, made.mine.folder, done))


async def _up(folder: Path | None) -> None:
    stop, started = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    serving = asyncio.create_task(_serve(folder, started, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not started.is_set():
        # Ctrl-C during the start: what was begun is taken back.
        serving.cancel()
    stopping.cancel()
    await asyncio.wait({serving})
    if not serving.cancelled():
        serving.result()


async def _serve(folder: Path | None, started: asyncio.Event, stop: asyncio.Event) -> None:
    async with region(Plan(), _notify(), folder) as made:
        started.set()
        print_output(_describe(made))
        await stop.wait()


def _describe(made: Region) -> str:
    lines = [f"{made.url}  gateways behind nginx", f"HONGBAO_DATA={made.data.path}  for ./run token, audit, psql …", ""]
    lines += [f"{one.front:14} {one.back:14} ip netns exec {one.namespace}" for one in made.hosts.values()]
    members = f"http://{made.hosts[made.plan.postgres_hosts('set-1')[0]].front}:8008/cluster"
    lines.append(f"\n{made.watcher.url}  Prometheus, with the alarms of deploy/prometheus")
    return "\n".join([*lines, "", f"curl {members}  who leads; etcd is on {', '.join(ETCDS)}", "Ctrl-C ends it"])


def _notify() -> Any:
    began = time.monotonic()
    return lambda text: print_on_stderr(f"{time.monotonic() - began:6.1f} s  {text}")
