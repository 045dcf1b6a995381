"""Account names and their numbers, remembered once they are committed."""

from collections import OrderedDict
from collections.abc import Collection
from typing import Any

from wallet.limits import CACHED_ACCOUNTS
from wallet.postings import account_kind
from wallet.sql import SQL


class Accounts:
    """Numbers account names through a bounded cache (least recently used goes first).

    Numbers are kept as the text that goes into an array literal: each is written many times and never computed with.

    A number never changes, so the cache cannot be stale, unless the database was replaced under us: the ledger calls
    `forget` with every new connection, and where fewer accounts move than were named.
    """

    def __init__(self, most: int = CACHED_ACCOUNTS) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()
        self._most = most

    def known(self, names: Collection[str]) -> dict[str, str] | None:
        """Return the number of every name; None if one of them is not remembered."""
        numbers = self._remembered(names)
        return numbers if len(numbers) == len(names) else None

    async def number(self, connection: Any, names: Collection[str]) -> dict[str, str]:
        """Return the number of every name; missing accounts are made in the connection's transaction."""
        numbers = self._remembered(names)
        # Sorted, so that two processes that make the same accounts wait for each other in one direction.
        missing = sorted(name for name in names if name not in numbers)
        if missing:
            kinds = [int(account_kind(name)) for name in missing]
            made = await connection.fetch(SQL["open_accounts"], missing, kinds)
            numbers.update((name, str(account_id)) for name, account_id in made)
        return numbers

    def _remembered(self, names: Collection[str]) -> dict[str, str]:
        known = self._known
        numbers = {name: known[name] for name in names if name in known}
        for name in numbers:
            known.move_to_end(name)
        return numbers

    def remember(self, numbers: dict[str, str]) -> None:
        """Keep numbers whose transaction has committed (never earlier: a rolled back account's number is void)."""
        self._known.update(numbers)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Drop everything remembered."""
        self._known.clear()
