"""`hongbao payout`: shows stuck payouts and redrives them."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from envelope.money import yuan
from errors import Refused
from installation.access import Access
from installation.finding import find_current
from runtime import postgres
from runtime.reporting import Show, data_option, json_option, print_report, working
from runtime.tables import print_table
from runtime.wording import counted
from schema import roles
from setnode.services.payouts.stuck import StuckPayout, redrive, stuck_payouts
from sharding.ids import DIGITS


@click.group("payout")
def command() -> None:
    """Handle payouts that the wallet has refused for good or has never answered."""


@command.command("stuck")
@data_option
@json_option
def stuck(*, data: Path | None, as_json: bool) -> None:
    """Show stuck payouts with the wallet's reason. Exit status 1 if there are any."""
    with working("asking the SETs"):
        found = asyncio.run(_stuck(find_current(data)))
    show: Show | str = (lambda console: print_table(console, _table(found))) if found else "no payout is stuck"
    print_report({"stuck": found}, as_json=as_json, show=show)
    sys.exit(1 if found else 0)


@command.command("retry")
@click.argument("envelope_id", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Retry every stuck payout.")
@data_option
@json_option
def retry(*, envelope_id: tuple[str, ...], everything: bool, data: Path | None, as_json: bool) -> None:
    """Redrive the stuck payouts of each ENVELOPE_ID: the setnodes pay them again, under the same order numbers."""
    if everything == bool(envelope_id):
        raise click.UsageError("name envelopes, or say --all")
    for one in envelope_id:
        if not (one.isascii() and one.isdecimal() and len(one) == DIGITS):
            raise Refused("malformed_envelope_id", f"{one[:50]!r} is not an envelope ID, which has {DIGITS} digits")
    with working("asking the SETs"):
        retried = asyncio.run(_retry(find_current(data), None if everything else [int(one) for one in envelope_id]))
    print_report({"retried": retried}, as_json=as_json, show=f"{counted(retried, 'payout')} will be paid again")


async def _stuck(access: Access) -> list[dict[str, Any]]:
    found = []
    for one in access.topology().sets:
        async with postgres.asked(access.set_dsn(one.name, roles.AUDIT)) as connection:
            found += [_as_json(one.name, payout) for payout in await stuck_payouts(connection)]
    return found


async def _retry(access: Access, envelope_ids: list[int] | None) -> int:
    retried = 0
    for one in access.topology().sets:
        async with postgres.connected(access.set_dsn(one.name, roles.SETNODE)) as connection:
            retried += await redrive(connection, access.clock.now(), envelope_ids)
    return retried


def _as_json(set_name: str, payout: StuckPayout) -> dict[str, Any]:
    return {
        "set": set_name,
        "envelope_id": str(payout.envelope_id),
        "seq": payout.seq,
        "receiver": payout.receiver,
        "amount_fen": payout.amount_fen,
        "attempts": payout.attempts,
        "stuck_at": payout.stuck_at.isoformat(),
        "reason": payout.reason,
    }


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table("SET", "envelope", "seq", "receiver", "yuan", "tries", "since", "reason")
    for one in found:
        fen = one["amount_fen"]
        table.add_row(
            one["set"], one["envelope_id"], str(one["seq"]), one["receiver"] or "?", "?" if fen is None else yuan(fen),
            str(one["attempts"]), one["stuck_at"][:19], one["reason"],
        )  # fmt: skip
    return table
