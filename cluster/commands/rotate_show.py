"""How `hongbao rotate` shows days to people: a table a SET, what stands in the way below it."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

MOST = 10
"""Obstacles shown of one day; --json has more."""
_COLORS = {"ok": "green", "alarm": "yellow", "page": "red"}


def show_plan(sets: Sequence[dict[str, Any]], console: Console) -> None:
    """Print each SET's days with what would be done, then the obstacles, then the days to come that have no tables."""
    for one in sets:
        if not _head(one, console):
            continue
        table = Table("date", "state", "would", "why", "claims about", "MB", "names needed from")
        for day in one["days"]:
            table.add_row(
                day["date"], day["state"], day["action"], day["why"], f"{day['claims_about']:,}",
                f"{day['bytes'] / 1e6:,.1f}", day["names_needed_from"],
            )  # fmt: skip
        console.print(table)
        for day in one["days"]:
            _obstacles(day["date"], day["obstacles"], len(day["obstacles"]), console)
        for day in one["coming"]:
            if day["occupied_by"]:
                console.print(f"[red]{day['date']}[/red] cannot be made: {day['occupied_by']} has its names")


def show_status(sets: Sequence[dict[str, Any]], console: Console) -> None:
    """Print where each day of each SET is on its way."""
    for one in sets:
        if not _head(one, console):
            continue
        table = Table("date", "state", "databases", "MB")
        for day in one["days"]:
            apart = sorted(set(day["databases"].values()))
            told = ", ".join(
                f"{state}: {sum(other == state for other in day['databases'].values())}" for state in apart
            )
            table.add_row(day["date"], day["state"], told, f"{day['bytes'] / 1e6:,.1f}")
        console.print(table)


def show_run(days: Sequence[dict[str, Any]], console: Console) -> None:
    """Print what became of each day."""
    if not days:
        console.print("no day is to go yet")
    for one in days:
        where = f"{one['set']} {one['date'] or ''}".strip()
        if one["error"] is None:
            states = ", ".join(sorted(set(one["states"].values()))) or "without databases: its tables are gone"
            took = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in one["seconds"].items())
            console.print(f"[green]{where}[/green] {states} {took}")
        else:
            console.print(f"[red]{where}[/red] {one['error']['detail']}")
            _obstacles(where, one["error"].get("obstacles", ()), one["error"].get("in_the_way", 0), console)


def _head(one: dict[str, Any], console: Console) -> bool:
    """Print a SET's first line; returns whether there is more to print of it."""
    if one["error"] is not None:
        console.print(f"[red]{one['set']}[/red] {one['error']['detail']}")
        return False
    color = _COLORS[one["alarm"]]
    console.print(f"{one['set']}: tables [{color}]{one['days_ahead']} days ahead ({one['alarm']})[/{color}]")
    return True


def _obstacles(of: str, obstacles: Sequence[dict[str, Any]], count: int, console: Console) -> None:
    for obstacle in obstacles[:MOST]:
        console.print(f"  {of}: [red]{obstacle['check']}[/red] {obstacle['detail']}")
    if count > MOST:
        console.print(f"  {of}: … and {count - MOST} more")
