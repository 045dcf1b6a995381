"""`hongbao payout`: payouts that stand still, shown and driven again."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from cluster.access import Access, find
from cluster.pg import roles
from cluster.reporting import Show, data_option, json_option, report
from envelope.errors import Refused
from envelope.money import yuan
from runtime import postgres
from setnode.rounds.stuck import StuckPayout, redrive, stuck_payouts
from sharding.ids import DIGITS


@click.group("payout")
def command() -> None:
    """Look after payouts that the wallet refused for good or never answered for."""


@command.command("stuck")
@data_option
@json_option
def stuck(*, data: Path | None, as_json: bool) -> None:
    """Show what is stuck, with the wallet's reason. Exit status 1 when there is anything."""
    found = asyncio.run(_stuck(find(data)))
    show: Show | str = (lambda console: console.print(_table(found))) if found else "no payout is stuck"
    report({"stuck": found}, as_json=as_json, show=show)
    sys.exit(1 if found else 0)


@command.command("retry")
@click.argument("envelope_id", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Retry every stuck payout.")
@data_option
@json_option
def retry(*, envelope_id: tuple[str, ...], everything: bool, data: Path | None, as_json: bool) -> None:
    """Give the stuck payouts of each ENVELOPE_ID back to the payers, under the same order numbers."""
    if everything == bool(envelope_id):
        raise click.UsageError("name envelopes, or say --all")
    for one in envelope_id:
        if not (one.isascii() and one.isdecimal() and len(one) == DIGITS):
            raise Refused("malformed_envelope_id", f"{one[:50]!r} is no envelope ID, which has {DIGITS} digits")
    retried = asyncio.run(_retry(find(data), None if everything else [int(one) for one in envelope_id]))
    report({"retried": retried}, as_json=as_json, show=f"{retried} payouts go to the payers again")


async def _stuck(access: Access) -> list[dict[str, Any]]:
    found = []
    for one in access.topology().sets:
        connection = await postgres.connect(access.set_dsn(one.name, roles.AUDIT))
        try:
            found += [_as_json(one.name, payout) for payout in await stuck_payouts(connection)]
        finally:
            await connection.close(timeout=2.0)
    return found


async def _retry(access: Access, envelope_ids: list[int] | None) -> int:
    retried = 0
    for one in access.topology().sets:
        connection = await postgres.connect(access.set_dsn(one.name, roles.SETNODE))
        try:
            retried += await redrive(connection, datetime.now(UTC), envelope_ids)
        finally:
            await connection.close(timeout=2.0)
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
