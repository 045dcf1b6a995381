"""`hongbao restart`: restarts processes one after the other, while the others serve."""

import os
import time
from pathlib import Path

import click

from errors import Unavailable
from installation import data_folder
from installation.data_folder import DataFolder
from local import rolling_restart, running
from runtime.reporting import data_option, json_option, print_report
from runtime.wording import counted

PART_S = 60.0
"""A gateway drains for five seconds, and a process starts within one; a slow machine takes longer."""
TICK_S = 0.1
_OF_COMMANDS = frozenset({"HONGBAO_DATA", "HONGBAO_INSTALLATION", "HONGBAO_PYTHON"})
"""What a command looks at itself: no part would see it."""


@click.command("restart")
@click.argument("parts", nargs=-1, metavar="[PART]...")
@data_option
@json_option
def command(*, parts: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Restart all gateways, setnodes and the wallet, or each PART (set-1-a, gateway-1, memcached, ...), in turn.

    No request fails for want of a server: a gateway is replaced by one that serves already, what a setnode has is
    served by the next one of its SET, and who needs a part that is alone waits for it. Exit status 1 if a part does not
    start; a gateway then goes on as it was, and the parts after it are left as they are.
    """
    folder = data_folder.locate(data)
    for name in unseen(running.load(folder.running).pid):
        click.echo(
            f"{name} of this environment is not seen: parts have the environment that ./run was started in; "
            f"./run stop, then start it again with {name} set",
            err=True,
        )
    begun = time.monotonic()
    done = _follow(folder, rolling_restart.ask(folder, parts), as_json=as_json)
    seconds = round(time.monotonic() - begun, 1)
    print_report(
        {"restarted": done, "seconds": seconds},
        as_json=as_json,
        show=f"restarted {counted(len(done), 'part')} in {seconds:.1f} s",
    )


def unseen(pid: int) -> list[str]:
    """Return the settings of this environment that the process `pid` was started without, or with another value."""
    try:
        begun_with = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # another account's
    settings = [name for name in os.environ if name.startswith("HONGBAO_") and name not in _OF_COMMANDS]
    return sorted(name for name in settings if os.fsencode(f"{name}={os.environ[name]}") not in begun_with)


def _follow(folder: DataFolder, number: int, *, as_json: bool) -> list[str]:
    """Say which part is back, until all are; return their names. Raises Unavailable `restart_failed`.

    `as_json`: standard output is for one object, so the parts are said on standard error.
    """
    done: list[str] = []
    left: tuple[str, ...] | None = None
    since = time.monotonic()
    while left is None or left:
        if time.monotonic() - since > PART_S:
            raise Unavailable("restart_failed", f"{left[0] if left else 'nothing'} is not back after {PART_S:.0f} s")
        time.sleep(TICK_S)
        now = running.load(folder.running).restart
        if now.number != number:
            continue
        if now.error:
            raise Unavailable("restart_failed", now.error)
        for name in (left or now.left)[: len(left or now.left) - len(now.left)]:
            done.append(name)
            click.echo(f"{name} is back after {time.monotonic() - since:.1f} s", err=as_json)
            since = time.monotonic()
        left = now.left
    return done
