"""Envelope IDs of the last creates: a taken one is answered with ID_TAKEN before it fails a whole batch by UNIQUE."""

from collections.abc import Iterable, Sequence

from wallet.limits import RECENT_CREATES
from wallet.postings import FundRow
from wallet.requests import FundRequest, WalletRequest


class RecentCreates:
    """Keeps the envelope IDs of the last committed creates: at least `least`, at most about twice as many.

    IDs hold the second of their create, so two creates that propose the same ID arrive within moments. An ID that is
    not kept (older, or of another wallet process) is refused by UNIQUE, and the batch is decided again.
    """

    def __init__(self, least: int = RECENT_CREATES) -> None:
        self._least = least
        self._young: dict[int, str] = {}
        self._old: dict[int, str] = {}
        """Create key by envelope ID, in two generations; the older is dropped as a whole."""

    def taken_from(self, requests: Iterable[WalletRequest]) -> set[int]:
        """Return the IDs that creates among `requests` propose and that belong to a create with another key.

        An ID of the same key is not returned: only the database knows whether that is the same request.
        """
        young, old, taken = self._young.get, self._old.get, set()
        for request in requests:
            if isinstance(request, FundRequest):
                first = young(request.envelope_id) or old(request.envelope_id)
                if first is not None and first != request.create_key:
                    taken.add(request.envelope_id)
        return taken

    def remember(self, funds: Sequence[FundRow]) -> None:
        """Keep the IDs of creates that have committed (one that was rolled back has taken nothing)."""
        self._young.update((fund.envelope_id, fund.create_key) for fund in funds)
        if len(self._young) >= self._least:
            self._young, self._old = {}, self._young

    def forget(self) -> None:
        """Empty the cache."""
        self._young, self._old = {}, {}
