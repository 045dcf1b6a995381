"""Account numbers by name, cached once the account is committed."""

from collections import OrderedDict
from collections.abc import Collection

from runtime import sql
from runtime.postgres import Connection
from wallet.limits import CACHED_ACCOUNTS
from wallet.postings import account_kind

_OPEN_ACCOUNTS = sql.read("wallet", "open_accounts")


class Accounts:
    """A bounded cache of account numbers; the least recently used go first.

    Numbers are kept as the text that goes into an array literal: each is written many times and never computed with.

    A number never changes, so an entry is stale only if the database was replaced, or if the user was forgotten and the
    number has another name: the ledger calls `forget` with every new connection, and when `post` finds an account gone.
    """

    def __init__(self, most: int = CACHED_ACCOUNTS) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()
        self._most = most

    def known(self, names: Collection[str]) -> dict[str, str] | None:
        """Return the number of every name; None if any of them is not cached."""
        numbers = self._cached(names)
        return numbers if len(numbers) == len(names) else None

    async def number(self, connection: Connection, names: Collection[str]) -> dict[str, str]:
        """Return the number of every name; missing accounts are created in the connection's transaction."""
        numbers = self._cached(names)
        # Sorted: two processes that create the same accounts cannot deadlock.
        missing = sorted(name for name in names if name not in numbers)
        if missing:
            kinds = [int(account_kind(name)) for name in missing]
            made = await connection.fetch(_OPEN_ACCOUNTS, missing, kinds)
            numbers.update((name, str(account_id)) for name, account_id in made)
        return numbers

    def _cached(self, names: Collection[str]) -> dict[str, str]:
        known = self._known
        numbers = {name: known[name] for name in names if name in known}
        for name in numbers:
            known.move_to_end(name)
        return numbers

    def remember(self, numbers: dict[str, str]) -> None:
        """Cache numbers whose transaction has committed (a rolled back account's number is void)."""
        self._known.update(numbers)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Empty the cache."""
        self._known.clear()
