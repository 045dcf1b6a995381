"""The wallet's client for tests that are operator and SET at once: each call goes out under the key that permits it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

from tests.link_keys import OPERATOR_KEY, setnode_key
from wallet.rights import PERMITTED
from wire.keys import SETNODE
from wire.link import Link
from wire.wallet import WalletClient

WAIT_S = 20.0


class _Links:
    def __init__(self, url: str) -> None:
        self.operator = Link("wallet", url, key=OPERATOR_KEY)
        self.setnode = Link("wallet", url, key=setnode_key())

    @property
    def up(self) -> bool:
        return self.operator.up and self.setnode.up

    def call(self, op: int, *args: Any) -> "asyncio.Future[list[Any]]":
        return (self.setnode if op in PERMITTED[SETNODE] else self.operator).call(op, *args)


@contextlib.asynccontextmanager
async def wallet_client(url: str) -> AsyncIterator[WalletClient]:
    links = _Links(url)
    keeping = [asyncio.ensure_future(one.maintain()) for one in (links.operator, links.setnode)]
    try:
        async with asyncio.timeout(WAIT_S):
            while not links.up:
                await asyncio.sleep(0.01)
        yield WalletClient(cast("Link", links))
    finally:
        for task in keeping:
            task.cancel()
        await asyncio.wait(keeping)
