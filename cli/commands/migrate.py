"""`hongbao migrate`: brings all databases to the schema of this release."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
import stamina
from rich.table import Table

from errors import HongbaoError
from installation.access import Access
from installation.finding import find
from runtime import postgres
from runtime.reporting import Show, data_option, json_option, print_report, working
from runtime.tables import print_table
from schema import identity, roles
from schema.migrate import Kind, compare, migrate

WALLET = "wallet"


@click.command("migrate")
@click.argument("server", nargs=-1)
@click.option("--check", is_flag=True, help="Change nothing: say what a migration would do.")
@data_option
@json_option
def command(*, server: tuple[str, ...], check: bool, data: Path | None, as_json: bool) -> None:
    """Bring the databases of each SERVER (set-1, wallet; all unless named) to the schema of this release.

    `./run` does it at each start; this is for processes that are started by other means, before those of a new release.
    Those of the release before go on working: a migration only adds what is new. One database is changed in one
    transaction, by one migrator at a time; an error in one leaves the others as they were asked for. Exit status 0: all
    are as this release needs them; with --check 1 if one is not.
    """
    # Tries for a lock are not logged: an error says what was in the way.
    stamina.instrumentation.set_on_retry_hooks(())
    with working("comparing" if check else "migrating"):
        found = asyncio.run(_all(find(data), server, check=check))
    print_report(
        {"holds": all(one["holds"] for one in found), "databases": found},
        as_json=as_json,
        show=_show(found),
    )
    sys.exit(0 if all(one["holds"] for one in found) else 1)


async def _all(access: Access, servers: tuple[str, ...], *, check: bool) -> list[dict[str, Any]]:
    names = servers or tuple(access.servers())
    dsns = {name: access.dsn(name, roles.OWNER) for name in names}  # an unknown name ends it before anything is done
    return [await _one(name, dsn, check=check) for name, dsn in dsns.items()]


async def _one(name: str, dsn: str, *, check: bool) -> dict[str, Any]:
    kind = Kind.WALLET if name == WALLET else Kind.SET
    applied: list[str] = []
    try:
        if not check:
            applied = await migrate(dsn, kind, name)
            await identity.claim(dsn, name)
        async with postgres.connected(dsn) as connection:
            found = await compare(connection, kind)
    except HongbaoError as error:
        return {
            "server": name, "kind": kind.value, "holds": False, "applied": applied, "missing": [], "beyond": [],
            "error": error.detail,
        }  # fmt: skip
    changed = f"{found.changed[0]}.sql was changed after it was applied" if found.changed else ""
    return {
        "server": name, "kind": kind.value, "holds": not found.missing and not found.changed, "applied": applied,
        "missing": found.missing, "beyond": found.beyond, "error": changed,
    }  # fmt: skip


def _show(found: list[dict[str, Any]]) -> Show:
    table = Table("server", "database", "applied now", "missing", "what it says")
    for one in found:
        beyond = f"has {', '.join(one['beyond'])} of a newer release, which this one works on" if one["beyond"] else ""
        said = one["error"] or beyond or ("as this release needs it" if one["holds"] else "run: hongbao migrate")
        table.add_row(one["server"], one["kind"], ", ".join(one["applied"]), ", ".join(one["missing"]), said)
    return lambda console: print_table(console, table)
