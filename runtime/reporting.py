"""How commands print: one JSON object or text, tables that never cut an identifier, a reader that may leave."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data folder.  [default: $HONGBAO_DATA, else data in the checkout]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")

Show = Callable[[Console], None]
"""Prints a result for people."""
UNLIMITED = 100_000
"""The width, in characters, of a file or a pipe: programs read lines as they are."""


def print_report(found: dict[str, Any], *, as_json: bool, show: Show | str) -> None:
    """Print `found` as one line of JSON, or for people: `show` as it is, or what it prints."""
    print_output(json.dumps(found, ensure_ascii=False) if as_json else show)


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


class OutputConsole(Console):
    """Standard output as it is: as wide as the terminal, of unlimited width in a pipe or a file."""

    def __init__(self) -> None:
        super().__init__()
        if not self.is_terminal:
            self.width = UNLIMITED

    def on_broken_pipe(self) -> None:
        """Drop this and all further output. Rich would exit with status 1, but the command decides on that."""
        self.quiet = True
        _discard_output()


def print_table(console: Console, table: Table) -> None:
    """Print a table in which no identifier and no number is cut or broken, whatever the width of the console.

    A column is at least as wide as its longest word, or as its longest cell if it is `no_wrap`. A table that is wider
    than the console all the same is printed in full, and the terminal wraps its lines.
    """
    options, width = console.options.update_width(UNLIMITED), console.width
    for column in table.columns:
        column.overflow = "fold"
        cells = [Measurement.get(console, options, cell) for cell in (column.header, *column.cells)]
        column.min_width = max(cell.maximum if column.no_wrap else cell.minimum for cell in cells)
    console.width = max(width, Measurement.get(console, options, table).minimum)
    try:
        console.print(table, crop=False)
    finally:
        console.width = width


def _discard_output() -> None:
    """Send all further output, also what Python flushes at exit, to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
