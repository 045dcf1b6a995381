"""One SET as the rotation sees it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class RotationTarget:
    """`dsn` is the owner's, `wallet_dsn` the auditor's; `databases(day)` are the xx whose envelopes are here."""

    name: str
    dsn: str
    wallet_dsn: str
    databases: Callable[[date], Collection[int]]
