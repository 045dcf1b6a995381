"""`hongbao query "SELECT …"`: SQL over the archive, for people who ask questions of last year."""

import csv
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from archive.view import Found, query
from cluster.archives import archive_of
from cluster.reporting import data_option, json_option, report, tell
from envelope.errors import Refused

EXACT = 1 << 53
"""Above it JSON's readers lose digits: such numbers (IDs) are written as texts."""


@click.command("query")
@click.argument("sql", metavar='"SELECT …"')
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1_000, show_default=True, help="Rows at most.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with a header on standard output.")
@data_option
@json_option
def command(*, sql: str, limit: int, as_csv: bool, data: Path | None, as_json: bool) -> None:
    r"""Read the archive with SQL (DuckDB's).

    The views envelope, claim and guest hold all archived days; besides the columns of their tables they have day (the
    business date) and xx (the database), and a condition on these reads only the files that it means. Amounts are in
    fen, instants in UTC. It only reads, and works without a running stack. Exit status 1 where an archive had to be
    left out because its manifest does not hold.

    \b
    hongbao query "SELECT day, count(*), sum(total_fen) / 100 AS yuan FROM envelope GROUP BY day ORDER BY day"
    hongbao query "SELECT * FROM claim WHERE day = '2026-11-21' AND user_id = 'bob' ORDER BY claimed_at"
    """
    if as_csv and as_json:
        raise Refused("two_formats", "give one of --json and --csv")
    found = query(archive_of(data), sql, limit=limit)
    for one in found.left_out:
        click.echo(f"left out: {one}", err=True)
    if found.more:
        click.echo(f"there are more than {limit} rows; raise --limit, or ask for less", err=True)
    if as_csv:
        tell(lambda _: _write_csv(found))
    else:
        report(_as_json(found), as_json=as_json, show=lambda console: _show(found, console))
    sys.exit(1 if found.left_out else 0)


def _as_json(found: Found) -> dict[str, Any]:
    return {
        "columns": found.columns,
        "types": found.types,
        "rows": [[_plain(value) for value in row] for row in found.rows],
        "more": found.more,
        "left_out": found.left_out,
    }


def _plain(value: object) -> object:
    """Return a value as JSON has it."""
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


def _write_csv(found: Found) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(found.columns)
    writer.writerows(found.rows)


def _show(found: Found, console: Console) -> None:
    table = Table()
    for name, kind in zip(found.columns, found.types, strict=True):
        table.add_column(name, justify="right" if kind.endswith(("INT", "INTEGER", "DOUBLE")) else "left")
    for row in found.rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    console.print(table)
    console.print(f"{len(found.rows)} rows" + (" of more" if found.more else ""))
