"""Envelopes made over HTTP and the requests that open them, prepared so that the client costs as little as it can."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import aiohttp

from cluster.access import Access
from envelope.errors import Unavailable

SHARES = 20
FEN = 100
CREATE_AT_ONCE = 128
SENDER = "host"
_CREATED = 201


def terms(shares: int = SHARES) -> dict[str, Any]:
    """Return the body of a create: an envelope of so many shares."""
    return {"kind": "lucky", "total_fen": shares * FEN, "count": shares}


async def pay_in(access: Access, envelopes: int, shares: int = SHARES) -> None:
    """Put the money for so many envelopes into the sender's wallet."""
    async with access.wallet() as wallet:
        await wallet.deposit(access.order_no(), SENDER, envelopes * shares * FEN)


async def make(access: Access, envelopes: int, shares: int = SHARES) -> list[dict[str, Any]]:
    """Create envelopes; returns their answers."""
    made: list[dict[str, Any]] = []
    headers = {"Authorization": f"Bearer {access.token(SENDER)}"}
    left = iter(range(envelopes))

    async def send(session: aiohttp.ClientSession) -> None:
        for _ in left:
            key = {**headers, "Idempotency-Key": uuid.uuid4().hex}
            async with session.post(f"{access.gateway_url}/v1/envelopes", json=terms(shares), headers=key) as response:
                if response.status != _CREATED:
                    raise Unavailable("create_failed", await response.text())
                made.append(await response.json())

    connector = aiohttp.TCPConnector(limit=CREATE_AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as senders:
        for _ in range(CREATE_AT_ONCE):
            senders.create_task(send(session))
    return made


def write_opens(
    access: Access, made: list[dict[str, Any]], path: Path, shares: int = SHARES, *, in_turn: bool = True
) -> None:
    """Write the opens of all shares, one a line: ID, share token, bearer token.

    Envelopes `in_turn`, a share of each before the next of the first, or each to its end before the next.
    """
    opened = [f"{one['envelope_id']} {one['share_token']}" for one in made]
    tokens = [access.token(f"user-{number}") for number in range(shares)]
    with path.open("w", encoding="ascii") as file:
        if in_turn:
            file.writelines(f"{one} {token}\n" for token in tokens for one in opened)
        else:
            file.writelines(f"{one} {token}\n" for one in opened for token in tokens)
