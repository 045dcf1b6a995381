"""The requests that wrk sends, written to a file beforehand, so that the client takes as little CPU as it can."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from installation.access import Access
from loadtest.openloop.opens import Envelope

SHARES = 20
FEN = 100
SENDER = "host"


def terms(shares: int = SHARES) -> dict[str, Any]:
    """Return the body of a create: an envelope of so many shares."""
    return {"kind": "lucky", "total_fen": shares * FEN, "count": shares}


async def pay_in(access: Access, envelopes: int, shares: int = SHARES) -> None:
    """Put the money for so many envelopes into the sender's wallet."""
    async with access.wallet() as wallet:
        await wallet.deposit(access.order_no(), SENDER, envelopes * shares * FEN)


def write_opens(
    access: Access, made: Sequence[Envelope], path: Path, shares: int = SHARES, *, in_turn: bool = True
) -> None:
    """Write the opens of all shares, one a line: ID, share token, bearer token.

    Envelopes `in_turn`, a share of each before the next of the first, or each to its end before the next.
    """
    opened = [f"{one.envelope_id} {one.share_token}" for one in made]
    tokens = [access.token(f"user-{number}") for number in range(shares)]
    with path.open("w", encoding="ascii") as file:
        if in_turn:
            file.writelines(f"{one} {token}\n" for token in tokens for one in opened)
        else:
            file.writelines(f"{one} {token}\n" for one in opened for token in tokens)
