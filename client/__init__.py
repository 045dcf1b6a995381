"""The client for those who build on hongbao: a gateway's API as Python objects.

    async with Hongbao("http://127.0.0.1:8080") as hongbao:
        alice, bob = hongbao.play("alice"), hongbao.play("bob")
        envelope = await alice.create(total_fen=888, count=3)
        print(await bob.open(envelope.share_id))
        async for change in alice.watch(envelope):
            print(change.claimed_count, "of", change.count)

What lives here: `hongbao` (the session, and a user's calls), `live` (the stream of changes), `connection` (sends a
call, repeats it), `calls` (each call as data, for other connections than ours), `models` and `errors` (what comes
back), `retries` and `tokens`. May import: nothing of the other rooms; aiohttp and msgspec. Promises: a call is repeated
only as the gateway's answer allows, a create always with the same key; beyond ten at once, retries are a tenth of all
calls at most. Fails by raising ApiError.
"""

from . import calls
from .connection import Attempt
from .errors import (
    ApiError,
    Conflict,
    Frozen,
    InsufficientFunds,
    InvalidRequest,
    NotAllowed,
    NotFound,
    NotSignedIn,
    OutcomeUnknown,
    TryLater,
    Unchanged,
    Unreachable,
)
from .hongbao import Hongbao, User
from .models import Change, Claim, Detail, Entry, Envelope, Mine, Result, Totals
from .retries import NO_PATIENCE, Patience, RetryBudget

__all__ = [
    "NO_PATIENCE",
    "ApiError",
    "Attempt",
    "Change",
    "Claim",
    "Conflict",
    "Detail",
    "Entry",
    "Envelope",
    "Frozen",
    "Hongbao",
    "InsufficientFunds",
    "InvalidRequest",
    "Mine",
    "NotAllowed",
    "NotFound",
    "NotSignedIn",
    "OutcomeUnknown",
    "Patience",
    "Result",
    "RetryBudget",
    "Totals",
    "TryLater",
    "Unchanged",
    "Unreachable",
    "User",
    "calls",
]
