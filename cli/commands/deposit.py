"""`hongbao deposit`: development money into a user's wallet."""

import asyncio
import re
from pathlib import Path

import click

from envelope.money import yuan
from gateway.identity.users import check_user
from installation.finding import find
from runtime.reporting import data_option, json_option, print_report

MAX_DEPOSIT_FEN = 10_000_000_000_000
"""The most that the wallet accepts in one deposit: a hundred billion yuan."""


_YUAN = re.compile(r"([0-9]{1,12})\.([0-9]{1,2})")
_NEGATIVE = re.compile(r"-[0-9]")


class DepositCommand(click.Command):
    """A command for which -5 is an amount that is refused, not an option that nobody has."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(ctx, [*args])
        except click.NoSuchOption:
            negative = next((one for one in args if _NEGATIVE.match(one)), None)
            if negative is None:
                raise
            raise _no_amount(negative, ctx) from None


def _read_fen(ctx: click.Context, parameter: click.Parameter, text: str) -> int:
    """Return the number; anything else is told what a fen is."""
    del parameter
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:32]) <= MAX_DEPOSIT_FEN:
        raise _no_amount(text, ctx)
    return int(text)


def _no_amount(text: str, ctx: click.Context) -> click.UsageError:
    """Say what an amount is, and what to write instead where that can be told."""
    said = f"FEN is whole fen, 1 to {MAX_DEPOSIT_FEN}: 150 is 1.50 yuan; it is not {text[:32]!r}"
    if _NEGATIVE.match(text):
        said += "; a deposit only adds: nothing takes money out of a wallet but an envelope"
    elif (matched := _YUAN.fullmatch(text)) and (fen := int(matched[1]) * 100 + int(matched[2].ljust(2, "0"))):
        said += f"; for {text} yuan write {fen}"
    return click.UsageError(said, ctx)


@click.command("deposit", cls=DepositCommand)
@click.argument("user")
@click.argument("fen", callback=_read_fen)
@click.option("--order-no", help="Order number; a repeat with the same number deposits nothing.  [default: a new one]")
@data_option
@json_option
def command(*, user: str, fen: int, order_no: str | None, data: Path | None, as_json: bool) -> None:
    """Put FEN (1/100 yuan) into USER's wallet, from the account `outside`."""
    check_user(user)
    balance = asyncio.run(_deposit(data, user, fen, order_no))
    print_report(
        {"user": user, "deposited_fen": fen, "balance_fen": balance},
        as_json=as_json,
        show=f"{user} has {yuan(balance)} yuan now",
    )


async def _deposit(data: Path | None, user: str, fen: int, order_no: str | None) -> int:
    access = find(data)
    async with access.wallet() as wallet:
        return await wallet.deposit(order_no or access.order_no(), user, fen)
