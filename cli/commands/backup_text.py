"""What the backup commands print for a person."""

from typing import Any

from rich.console import Console
from rich.table import Column, Table

from backup.folder import LogState
from backup.retention import PrunePlan
from runtime.tables import print_table
from runtime.wording import counted

_LOG_STATES: dict[str, str] = {
    LogState.NONE: "not kept; only the base copies can be restored",
    LogState.KEPT: "kept",
    LogState.AWAY: "[bold]no `backup log` is connected[/]; the server retains it for a while",
    LogState.BEHIND: "[bold]received too slowly[/]",
    LogState.LOST: "[bold]lost[/]: `backup log --anew`, then `backup take`",
    "unknown": "unknown, the server does not answer",
    "login_refused": "unknown, the server refuses the superuser's login: mend its password or pg_hba.conf",
}


def show_taken(found: list[dict[str, Any]], console: Console) -> None:
    """Print a line for each server: its new copy, or why there is none."""
    for one in found:
        if "code" in one:
            console.print(f"[bold red]{one['server']}[/]: {one['detail']}", highlight=False)
        else:
            console.print(f"{one['server']} is in {one['path']}, verified", highlight=False)


def backups_table(found: list[dict[str, Any]]) -> Table:
    """Return the base copies of all servers as a table."""
    table = Table("server", Column("base copy", no_wrap=True), "taken at", "log after it")
    for one in found:
        for base in one["bases"]:
            log = f"lacks {base['missing']}" if base["missing"] else "complete"
            table.add_row(one["server"], base["path"], base["taken_at"][:19], log)
    return table


def show_backups(found: list[dict[str, Any]], console: Console) -> None:
    """Print the base copies of all servers, and how the log of each stands."""
    print_table(console, backups_table(found))
    for one in found:
        behind = "" if one["behind_bytes"] is None else f", {one['behind_bytes']:,} bytes behind the server"
        none = "" if one["bases"] else "; [bold]there is no base copy[/]"
        console.print(f"log of {one['server']}: {_LOG_STATES[one['log']]}{behind}{none}")


def prune_json(server: str, plan: PrunePlan, *, removed: bool) -> dict[str, Any]:
    """Return what goes, or has gone, for `--json`."""
    return {
        "server": server,
        "bases": [str(base.path) for base in plan.bases],
        "segments": len(plan.segments),
        "bytes": plan.bytes,
        "kept": len(plan.folder.bases()) - (0 if removed else len(plan.bases)),
        "removed": removed,
    }


def show_pruned(found: list[dict[str, Any]], console: Console) -> None:
    """Print what goes, or has gone, of each server."""
    for one in found:
        what = f"{counted(len(one['bases']), 'backup')} and {counted(one['segments'], 'segment')} of log"
        size = f"{one['bytes'] / 1e6:,.1f} MB"
        kept = counted(one["kept"], "backup")
        if one["removed"]:
            console.print(f"{one['server']}: {what} removed, {size}; {kept} kept", highlight=False)
        else:
            console.print(f"{one['server']}: {what} would go, {size}; {kept} would stay", highlight=False)
        for path in one["bases"]:
            console.print(f"  {path}", highlight=False)
    if found and not found[0]["removed"]:
        console.print("nothing was removed; --yes removes it")
