"""`hongbao deposit`: money into a user's wallet, once per order number."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import click

from envelope.money import yuan
from errors import HongbaoError, Unavailable
from gateway.identity.users import check_user
from installation.access import Access
from installation.finding import find
from runtime.reporting import data_option, json_option, print_report

MAX_DEPOSIT_FEN = 10_000_000_000_000
"""The most that the wallet accepts in one deposit: a hundred billion yuan."""
ENTRIES = 100
"""Newest entries of the user's statement in which an order is looked for, a page."""


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
    digits = text.lstrip("0")
    # Python converts no more than some thousands of digits.
    if not (text.isascii() and text.isdecimal() and len(digits) <= len(str(MAX_DEPOSIT_FEN))):
        raise _no_amount(text, ctx)
    if not 1 <= int(digits or "0") <= MAX_DEPOSIT_FEN:
        raise _no_amount(text, ctx)
    return int(digits)


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
    """Put FEN (1/100 yuan) into USER's wallet, from the account `outside`.

    With --order-no it says when that number was booked: now, or by an earlier call.
    """
    check_user(user)
    access = find(data)
    number = order_no or access.order_no()
    try:
        balance, booked, told = asyncio.run(_deposit(access, user, fen, number))
    except KeyboardInterrupt:
        click.echo(_perhaps(number), err=True)
        raise
    of_order = f"{number} {told}; " if order_no else ""
    print_report(
        {"user": user, "deposited_fen": fen, "balance_fen": balance, "booked_at": booked, "order_no": number},
        as_json=as_json,
        show=f"{of_order}{user} has {yuan(balance)} yuan now",
    )


async def _deposit(access: Access, user: str, fen: int, number: str) -> tuple[int, str | None, str]:
    """Return the balance, and when the order was booked, by the wallet's clock: None where that cannot be told."""
    async with access.wallet() as wallet:
        try:
            balance = await wallet.deposit(number, user, fen)
        except Unavailable as away:
            if away.outcome_known:
                raise
            raise Unavailable(away.code, f"{_perhaps(number)} ({away.detail})", outcome_known=False) from away
        try:
            entries = await wallet.entries(user, 0, ENTRIES)
        except HongbaoError as error:
            return balance, None, f"was booked; when could not be read: {error.detail}"
    for _, order, _, _, _, at_ms in entries:
        if order == number:
            booked = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
            return balance, booked, f"was booked {booked}"
    return balance, None, f"was booked more than {ENTRIES} entries ago"


def _perhaps(number: str) -> str:
    return f"it may have been deposited: repeat this with --order-no {number}, which deposits nothing twice"
