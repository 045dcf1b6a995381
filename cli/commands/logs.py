"""`hongbao logs`: the logs of the parts and of their supervisor."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from cli.commands import logs_text
from errors import Refused
from installation import data_folder
from machine.logfile import LogFile
from runtime.reporting import data_option, print_output

SUPERVISOR = "supervisor"
TICK_S = 0.2


@click.command("logs")
@click.argument("part", default=SUPERVISOR)
@click.option("-f", "--follow", is_flag=True, help="Print new lines until Ctrl-C.")
@click.option("-n", "--lines", default=20, show_default=True, type=click.IntRange(0), help="Old lines to print first.")
@click.option("--text", is_flag=True, help="For people: time, level, what happened, name=value; not JSON.")
@data_option
def command(*, part: str, follow: bool, lines: int, text: bool, data: Path | None) -> None:
    """Show the log of PART (set-1-a, wallet, gateway-1, postgres-set-1, …); without PART that of the supervisor.

    The supervisor logs starts and ends of all parts. Works whether or not anything runs.
    """
    log = LogFile(_log_of(data_folder.locate(data), part))
    at = log.size()
    old = log.tail(lines) if lines else ""
    print_output("\n".join(map(logs_text.line, old.split("\n"))) if text else old)
    new = _following(log, at) if follow else iter(())
    for one in logs_text.lines(new) if text else new:
        click.echo(one, nl=text)


def _log_of(folder: data_folder.DataFolder, part: str) -> Path:
    known = sorted(path.stem for path in folder.logs.glob("*.log"))
    if not known:
        raise Refused(
            "no_logs",
            f"nothing has been logged in {folder.logs}: no stack was started there; what systemd starts logs into its "
            "journal (journalctl -u hongbao-wallet)",
        )
    if part not in known:
        raise Refused("no_such_part", f"there is no log of {part!r}; there are {', '.join(known)}")
    return folder.log(part)


def _following(log: LogFile, at: int) -> Iterator[str]:
    """Yield what is written after the offset `at`, for ever. A log that was truncated is read from its beginning."""
    while True:
        size = log.size()
        at = 0 if size < at else at
        if size > at:
            with log.path.open("rb") as file:
                file.seek(at)
                text = file.read()
            at += len(text)
            yield text.decode(errors="replace")
        else:
            time.sleep(TICK_S)
