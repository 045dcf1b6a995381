"""How `hongbao rotate` prints days: a table for each SET, then what prevents a rotation."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rotation.plan import STILL_TO_COME
from runtime.tables import print_table
from runtime.wording import counted

SHOWN = 10
"""Obstacles printed of one day; --json has more."""
_COLORS = {"ok": "green", "alarm": "yellow", "page": "red"}


def show_plan(sets: Sequence[dict[str, Any]], console: Console, *, every_day: bool = False) -> None:
    """Print each SET's days with what would be done, the obstacles, and coming days whose tables cannot be made.

    Days to come are one row, unless `every_day`.
    """
    for one in sets:
        if not _head(one, console):
            continue
        table = Table("date", "state", "would", "why", "claims about", "MB", "names needed from")
        for day in one["days"] if every_day else _folded(one["days"]):
            table.add_row(
                day["date"], day["state"], day["action"], day["why"], f"{day['claims_about']:,}",
                f"{day['bytes'] / 1e6:,.1f}", day["names_needed_from"],
            )  # fmt: skip
        print_table(console, table)
        for day in one["days"]:
            _obstacles(day["date"], day["obstacles"], len(day["obstacles"]), console)
        for day in one["coming"]:
            if day["occupied_by"]:
                console.print(f"[red]{day['date']}[/red] cannot be made: tables of {day['occupied_by']} have the names")


def _folded(days: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the days with those to come as one."""
    coming = [day for day in days if day["why"] == STILL_TO_COME and not day["obstacles"]]
    if len(coming) <= 1:
        return list(days)
    one = {
        **coming[0],
        "date": f"{coming[0]['date']} to {coming[-1]['date']}",
        "why": f"{counted(len(coming), 'day')} still to come",
        "claims_about": sum(day["claims_about"] for day in coming),
        "bytes": sum(day["bytes"] for day in coming),
    }
    return [*(day for day in days if day not in coming), one]


def show_status(sets: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the state of each day of each SET."""
    for one in sets:
        if not _head(one, console):
            continue
        table = Table("date", "state", "databases", "MB")
        for day in one["days"]:
            states = sorted(set(day["databases"].values()))
            databases = ", ".join(
                f"{state}: {sum(other == state for other in day['databases'].values())}" for state in states
            )
            table.add_row(day["date"], day["state"], databases, f"{day['bytes'] / 1e6:,.1f}")
        print_table(console, table)


def show_run(days: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the outcome of each day."""
    if not days:
        console.print("no day can be rotated yet")
    for one in days:
        where = f"{one['set']} {one['date'] or ''}".strip()
        if one["error"] is None:
            states = ", ".join(sorted(set(one["states"].values()))) or "without databases: no tables are left"
            took = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in one["seconds"].items())
            console.print(f"[green]{where}[/green] {states} {took}")
        else:
            console.print(f"[red]{where}[/red] {one['error']['detail']}")
            _obstacles(where, one["error"].get("obstacles", ()), one["error"].get("in_the_way", 0), console)


def _head(one: dict[str, Any], console: Console) -> bool:
    """Print a SET's first line; returns False if the SET did not answer."""
    if one["error"] is not None:
        console.print(f"[red]{one['set']}[/red] {one['error']['detail']}")
        return False
    color = _COLORS[one["alarm"]]
    console.print(f"{one['set']}: tables [{color}]{counted(one['days_ahead'], 'day')} ahead ({one['alarm']})[/{color}]")
    return True


def _obstacles(of: str, obstacles: Sequence[dict[str, Any]], count: int, console: Console) -> None:
    for obstacle in obstacles[:SHOWN]:
        console.print(f"  {of}: [red]{obstacle['check']}[/red] {obstacle['detail']}")
    if count > SHOWN:
        console.print(f"  {of}: … and {count - SHOWN} more")
