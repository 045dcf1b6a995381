"""Users to play with: a group chat of twenty who may sign in without a password, each with some money.

Only where nobody but this machine reaches the gateways (`users_at`): whoever reaches them may be any of these users.
"""

import asyncio
import os
from typing import Final

from installation.access import Access
from runtime.settings import is_loopback

SETTING: Final = "HONGBAO_PLAY_USERS"
NAMES: Final = (
    *("xiaoming", "xiaohong", "xiaogang", "xiaoli", "laowang", "ayi", "mama", "baba", "nainai", "yeye"),
    *("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy"),
)
VISITOR: Final = "alice"
"""Who a person is in `./run demo --watch`: all others play by themselves."""
FEN: Final = 20_000
"""200 yuan each."""


def users_at(host: str) -> tuple[str, ...]:
    """Return the users of a stack that listens at `host`: nobody unless that is loopback, or if the setting is given.

    An operator who sets HONGBAO_PLAY_USERS, empty or not, has decided; the gateways inherit it.
    """
    return NAMES if is_loopback(host) and SETTING not in os.environ else ()


async def give_money(access: Access, users: tuple[str, ...]) -> None:
    """Deposit FEN to each of `users`, once in the life of an installation, however often it is called.

    Raises Unavailable `wallet_away`, and what `WalletClient.deposit` raises.
    """
    async with access.wallet() as wallet:
        await asyncio.gather(*(wallet.deposit(f"play-1-{user}", user, FEN) for user in users))
