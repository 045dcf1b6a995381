"""How commands print: one JSON object or text, to a reader that may leave. Tables are in `runtime.tables`."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.status import Status

from runtime.tables import UNLIMITED
from runtime.wording import as_called

_INSTALLATION = "hongbao.installation"


def _remember(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    if file is not None and file.suffix != ".toml":
        raise click.BadParameter(f"{file} is no installation file: its name ends with .toml")
    context.meta[_INSTALLATION] = file


def _one_of_both(context: click.Context, _parameter: click.Parameter, folder: Path | None) -> Path | None:
    file: Path | None = context.meta.get(_INSTALLATION)
    if folder is not None and file is not None:
        raise click.UsageError("name the data folder (--data) or the installation file (--installation), not both")
    return folder or file


folder_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data folder.  [default: $HONGBAO_DATA, else data in the checkout]",
)
"""For commands that start or end processes of this machine."""


def data_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `data`: the data folder, or the file of an installation; None if neither is named."""
    folder = click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        callback=_one_of_both,
        help="Data folder.  [default: $HONGBAO_DATA, else data in the checkout]",
    )
    file = click.option(
        "--installation",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=_remember,
        is_eager=True,
        expose_value=False,
        metavar="FILE",
        help="Installation file, in place of --data.  [default: $HONGBAO_INSTALLATION]",
    )
    return folder(file(command))


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")

Show = Callable[[Console], None]
"""Prints a result for people."""


def print_report(found: dict[str, Any], *, as_json: bool, show: Show | str) -> None:
    """Print `found` as one line of JSON, or for people: `show` as it is, or what it prints."""
    if as_json:
        show = json.dumps(found, ensure_ascii=False)
    elif isinstance(show, str):
        show = as_called(show)
    print_output(show)


def print_output(what: Show | str) -> None:
    """Print to standard output. If its reader has left (`… | head`), the rest is dropped without an error."""
    try:
        if isinstance(what, str):
            click.echo(what)
        else:
            what(OutputConsole())
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()


def working(what: str) -> Status:
    """Return a block in which a terminal shows on standard error that `what` goes on; nothing in a pipe or a file."""
    return Console(stderr=True).status(what)


class OutputConsole(Console):
    """Standard output as it is: as wide as the terminal, of unlimited width in a pipe or a file."""

    def __init__(self) -> None:
        super().__init__()
        if not self.is_terminal:
            self.width = UNLIMITED

    def print(self, *objects: Any, **more: Any) -> None:
        """Print; in texts commands are named as this one was called."""
        super().print(*(as_called(one) if isinstance(one, str) else one for one in objects), **more)

    def on_broken_pipe(self) -> None:
        """Drop this and all further output. Rich would exit with status 1, but the command decides on that."""
        self.quiet = True
        _discard_output()


def _discard_output() -> None:
    """Send all further output, also what Python flushes at exit, to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
