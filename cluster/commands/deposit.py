"""`hongbao deposit`: development money into a user's wallet."""

import asyncio
from pathlib import Path

import click

from cluster.access import find
from cluster.reporting import data_option, json_option, report
from envelope.money import yuan
from gateway.identity.users import check_user

MOST_FEN = 10_000_000_000_000
"""What the wallet takes at once: a hundred billion yuan."""


@click.command("deposit")
@click.argument("user")
@click.argument("fen", type=click.IntRange(1, MOST_FEN))
@click.option("--order-no", help="Order number; the same one twice deposits once.  [default: a new one]")
@data_option
@json_option
def command(*, user: str, fen: int, order_no: str | None, data: Path | None, as_json: bool) -> None:
    """Put FEN (1/100 yuan) into USER's wallet, from the account of the outside world."""
    check_user(user)
    balance = asyncio.run(_deposit(data, user, fen, order_no))
    report(
        {"user": user, "deposited_fen": fen, "balance_fen": balance},
        as_json=as_json,
        show=f"{user} has {yuan(balance)} yuan now",
    )


async def _deposit(data: Path | None, user: str, fen: int, order_no: str | None) -> int:
    access = find(data)
    async with access.wallet() as wallet:
        return await wallet.deposit(order_no or access.order_no(), user, fen)
