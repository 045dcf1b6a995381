"""`hongbao query "SELECT …"`: SQL over the archive, for questions about past days."""

import asyncio
import csv
import math
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from archive.limits import QUERY_S
from archive.view import QueryResult, query
from cli.archives import find_installed, open_archive, registered_archives
from errors import Refused, Unavailable
from runtime.reporting import data_option, json_option, print_output, print_report, working
from runtime.tables import print_table
from runtime.wording import counted

EXACT = 1 << 53
"""JSON readers lose digits of larger integers: these (envelope IDs) are written as strings."""

_EXAMPLES = """\b
hongbao query "SELECT day, count(*), sum(total_fen) / 100 AS yuan FROM envelope GROUP BY day ORDER BY day"
hongbao query "SELECT * FROM claim WHERE day = '2026-11-21' AND user_id = 'bob' ORDER BY claimed_at"
"""
"""click prints a paragraph that begins with a backspace as it is."""


@click.command("query", epilog=_EXAMPLES)
@click.argument("sql", metavar='"SELECT …"')
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1_000, show_default=True, help="Rows at most.")
@click.option("--timeout", default=QUERY_S, show_default=True, type=click.FloatRange(0.1), help="Seconds at most.")
@click.option("--verify", "hashes", is_flag=True, help="Read all files and verify their hashes first.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with a header on standard output.")
@data_option
@json_option
def command(
    *, sql: str, limit: int, timeout: float, hashes: bool, as_csv: bool, data: Path | None, as_json: bool
) -> None:
    """Read the archive with DuckDB's SQL.

    The views envelope, claim and guest hold all archived days. Besides the columns of their tables they have day (the
    business date) and xx (the database); a condition on these limits which files are read. Amounts are in fen, times
    in UTC. Works whether or not anything runs. Exit status 1 if an archive was left out: its manifest does not verify,
    or the register of a SET names it and it is not in the folder. While Postgres is down the registers are not read,
    and nothing is said about what may be missing (`complete` is null with --json).

    In CSV a text that a spreadsheet would take for a formula (it begins with = + - @, a tab or a line break) gets an
    apostrophe in front.
    """
    if as_csv and as_json:
        raise Refused("two_formats", "give one of --json and --csv")
    registered = _registered(data)
    archive = open_archive(data)
    with working("reading the archive"):
        found = query(archive, sql, limit=limit, registered=registered, hashes=hashes, timeout_s=timeout)
    complete = None if registered is None and not found.left_out else not found.left_out
    for one in found.left_out:
        click.echo(f"left out: {one}", err=True)
    if found.more:
        click.echo(f"there are more than {counted(limit, 'row')}; raise --limit, or select fewer", err=True)
    if as_csv:
        print_output(lambda _: _write_csv(found))
    else:
        print_report(
            {**_as_json(found), "complete": complete}, as_json=as_json, show=lambda console: _show(found, console)
        )
    sys.exit(1 if found.left_out else 0)


def _registered(data: Path | None) -> dict[tuple[date, int], str] | None:
    """Return the archives that the registers name; None, which is said, if they cannot be read."""
    access = find_installed(data)
    if access is None:
        return None
    try:
        return asyncio.run(registered_archives(access))
    except Unavailable as away:
        click.echo(f"the registers were not read, so an archive may be missing: {away.detail}", err=True)
        return None


def _as_json(found: QueryResult) -> dict[str, Any]:
    return {
        "columns": found.columns,
        "types": found.types,
        "rows": [[_plain(value) for value in row] for row in found.rows],
        "more": found.more,
        "left_out": found.left_out,
    }


def _plain(value: object) -> object:
    """Return a value as builtins for JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no number for it
    if isinstance(value, bool | str | float) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) <= EXACT else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return str(value)


def _write_csv(found: QueryResult) -> None:
    writer = csv.writer(sys.stdout)
    for row in (found.columns, *found.rows):
        writer.writerow([_no_formula(value) for value in row])


def _no_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else value


def _show(found: QueryResult, console: Console) -> None:
    table = Table()
    for name, kind in zip(found.columns, found.types, strict=True):
        table.add_column(name, justify="right" if kind.endswith(("INT", "INTEGER", "DOUBLE")) else "left")
    for row in found.rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    print_table(console, table)
    console.print(counted(len(found.rows), "row") + (" of more" if found.more else ""))
