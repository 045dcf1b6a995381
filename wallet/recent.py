"""The creates of a moment ago: whose envelope ID is taken is known before Postgres refuses a whole batch for it."""

from collections.abc import Iterable, Sequence

from wallet.limits import RECENT_CREATES
from wallet.postings import FundRow
from wallet.requests import FundRequest, Request


class RecentCreates:
    """Remembers the envelope IDs of at least the last `least` creates that were committed, of twice as many at most.

    IDs hold the second of their create, so two that want the same one come within moments. What is not remembered (of
    another wallet process, or older) is refuted by UNIQUE as ever; then the batch is read and decided anew.
    """

    def __init__(self, least: int = RECENT_CREATES) -> None:
        self._least = least
        self._young: dict[int, str] = {}
        self._old: dict[int, str] = {}
        """Two halves, of which the older goes as a whole: create keys by envelope ID."""

    def taken_from(self, requests: Iterable[Request]) -> set[int]:
        """Return the IDs that creates among `requests` ask for and creates of another key have.

        The ID of a create's own first attempt is none of them: only the database knows whether it is the same request.
        """
        young, old, taken = self._young.get, self._old.get, set()
        for request in requests:
            if isinstance(request, FundRequest):
                first = young(request.envelope_id) or old(request.envelope_id)
                if first is not None and first != request.create_key:
                    taken.add(request.envelope_id)
        return taken

    def remember(self, funds: Sequence[FundRow]) -> None:
        """Keep what has committed (never earlier: what was rolled back has taken nothing)."""
        self._young.update((fund.envelope_id, fund.create_key) for fund in funds)
        if len(self._young) >= self._least:
            self._young, self._old = {}, self._young

    def forget(self) -> None:
        """Drop everything remembered."""
        self._young, self._old = {}, {}
