"""What the commands that report have in common: their options, one JSON object or words, and a reader who may leave."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

data_option = click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder.  [default: data in the checkout]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")

Show = Callable[[Console], None]


def report(found: dict[str, Any], *, as_json: bool, show: Show | str) -> None:
    """Print `found` as JSON, or for people: a text as it stands, or whatever `show` prints."""
    tell(json.dumps(found, ensure_ascii=False) if as_json else show)


def tell(what: Show | str) -> None:
    """Print to standard output. A reader who has left (`… | head`) is no error: the exit status stays the command's."""
    try:
        if isinstance(what, str):
            click.echo(what)
        else:
            what(_Paper())
        sys.stdout.flush()
    except BrokenPipeError:
        _nobody_reads()


class _Paper(Console):
    """rich ends the process with status 1 where nobody reads; the command is to go on and judge for itself."""

    def on_broken_pipe(self) -> None:
        """Drop this and all that follows."""
        self.quiet = True
        _nobody_reads()


def _nobody_reads() -> None:
    """Send what is still to come, also what Python flushes at its end, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
