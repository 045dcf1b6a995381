"""How rotation reaches one SET and its wallet, and which databases are that SET's."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class SetAccess:
    """`dsn` is the table owner's, `wallet_dsn` the auditor's; `databases(day)` are the xx whose envelopes are here."""

    name: str
    dsn: str
    wallet_dsn: str
    databases: Callable[[date], Collection[int]]
