"""`hongbao clock`: shows the clock of a sandbox, and moves it ahead."""

import asyncio
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import click
import msgspec
from rich.console import Console

from errors import Refused
from installation import data_folder
from installation.access import Access
from installation.finding import find
from local import clock_move
from local.clock_bounds import read_move
from local.clock_due import AHEAD_DAYS
from local.clock_move import Moved
from rotation.free_names import free_names
from rotation.wiring import rotations
from runtime.reporting import data_option, json_option, print_report, working
from runtime.sandbox_clock import SandboxClock

WAIT_S = 120.0
"""Of the many envelopes of a load test some thousand are closed and paid in a second; rotating a month takes longer."""


_NEVER_MOVED = "; this is no sandbox (./run --sandbox --data FOLDER), and its clock is never moved"


class ClockCommand(click.Command):
    """A command for which -1h is a move that is refused, not an option that nobody has."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        backwards = next((one for one in args if one[:1] == "-" and one[1:2].isdecimal()), None)
        if backwards is not None:
            _read(ctx, None, backwards)
        return super().parse_args(ctx, args)


def _read(ctx: click.Context, parameter: click.Parameter | None, text: str | None) -> timedelta | None:
    """Return by how much to move; a move that nobody can mean is a wrong use of the command, and says what to write."""
    del parameter
    try:
        return None if text is None else read_move(text)
    except Refused as refusal:
        raise click.UsageError(refusal.detail, ctx) from None


@click.command("clock", cls=ClockCommand)
@click.argument("by", metavar="[+TIME]", required=False, callback=_read)
@click.option(
    "--wait", "wait_s", type=click.FloatRange(0, 86_400), default=WAIT_S, show_default=True, metavar="SECONDS",
    help="How long to wait until what became due is done.",
)  # fmt: skip
@data_option
@json_option
def command(*, by: timedelta | None, wait_s: float, data: Path | None, as_json: bool) -> None:
    """Show what time it is, or move the clock of a sandbox ahead: +24h, +90m, +3d, +1d12h.

    What becomes due happens as it would: envelopes expire, what is left goes back, those that open later can be opened,
    a new business day has its own tables and limits. The command ends when that is done; exit status 1 if some of it is
    still on its way. In a real installation a move is refused: its clock is the machine's.
    """
    access = find(data)
    if by is None:
        now = clock_move.show(access)
        sandbox = isinstance(access.clock, SandboxClock)
        print_report(msgspec.to_builtins(now), as_json=as_json, show=now.sentence() + ("" if sandbox else _NEVER_MOVED))
        return
    with working("moving the clock") as status:
        folder, room = data_folder.locate(data), partial(_make_room, access)
        done = asyncio.run(clock_move.move(folder, access, by, wait_s, room, status.update))
    found = msgspec.to_builtins(done)
    report = {**found.pop("clock"), **found, "done": done.left.nothing}
    print_report(report, as_json=as_json, show=lambda console: _show_moved(done, console))
    sys.exit(0 if done.left.nothing else 1)


async def _make_room(access: Access) -> None:
    """Take out the old days whose names the tables of today and tomorrow need."""
    for rotation in rotations(access):
        await free_names(rotation, access.today(), AHEAD_DAYS)


def _show_moved(done: Moved, console: Console) -> None:
    console.print(done.clock.sentence(), highlight=False)
    if done.left.nothing:
        console.print(f"what became due is done, after {done.waited_s:.1f} s", highlight=False)
    else:
        console.print(
            f"[yellow]still on its way[/] after {done.waited_s:.1f} s: {done.left.sentence()}; ./run doctor and "
            "./run logs say why, if it stays so",
            highlight=False,
        )
