"""`hongbao doctor`: what is installed, what runs, what will soon fail, and what to do about each."""

import sys
import textwrap
import time
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.text import Text

from doctor.examination import examine
from doctor.finding import Finding, Level, all_is_well
from runtime.reporting import data_option, json_option, print_report, working
from runtime.wording import counted

_COLORS = {Level.OK: "green", Level.NOTE: "cyan", Level.SOON: "yellow", Level.WRONG: "bold red"}
MARGIN = 6
"""Characters for a level, in front of each line."""


@click.command("doctor")
@click.option(
    "--backups",
    default="",
    metavar="PLACE",
    help="Where the backups are, a folder or s3://bucket/prefix: to look at its disk and at the log in it, too.",
)
@data_option
@json_option
def command(*, backups: str, data: Path | None, as_json: bool) -> None:
    """Look at what is installed, what runs, and what will soon fail; say of each finding what to do.

    Works whether or not anything runs; ends within 20 seconds whatever hangs, and changes nothing. `note` is on purpose
    or optional, `soon` will fail, `wrong` fails now. Exit status 1 if anything is `soon` or `wrong`.
    """
    begun = time.monotonic()
    with working("looking at programs, files, parts and days"):
        found = examine(data, backups)
    holds = all_is_well(found)
    report = {
        "holds": holds,
        "findings": msgspec.to_builtins(found),
        "seconds": round(time.monotonic() - begun, 1),
    }
    print_report(report, as_json=as_json, show=lambda console: show(found, console))
    sys.exit(0 if holds else 1)


def show(found: list[Finding], console: Console) -> None:
    """Print what is well, then the rest, the worst last; a terminal shows the end first.

    Lines are broken between words only: a path or a command stays in one piece.
    """
    for one in sorted(found, key=lambda finding: list(Level).index(finding.level)):
        lines = wrapped(one.what, console.width - MARGIN)
        lines += wrapped(f"→ {one.do}", console.width - MARGIN) if one.do else []
        for number, line in enumerate(lines):
            mark = Text(f"{one.level:<{MARGIN}}" if number == 0 else " " * MARGIN, style=_COLORS[one.level])
            console.print(mark.append(line, style="none"), soft_wrap=True, highlight=False)
    console.print(_sum(found), highlight=False)


def wrapped(text: str, width: int) -> list[str]:
    """Return the text in lines of this width, if no word is longer."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _sum(found: list[Finding]) -> str:
    wrong, soon, notes = (sum(one.level is level for one in found) for level in (Level.WRONG, Level.SOON, Level.NOTE))
    if any(one.check == "installation" and one.level is Level.NOTE for one in found):
        return f"nothing is installed there; {counted(notes, 'note')}"
    if not wrong and not soon:
        return f"[green]all is well[/]; {counted(notes, 'note')}"
    return f"[bold red]{counted(wrong, 'thing')} wrong[/], {soon} soon, {counted(notes, 'note')}"
