"""From two looks at the metrics of all processes to figures of the second between them."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from installation.parts import Kind
from ops.exposition import Exposed, by_label, total
from ops.parts import Part

_SHARES = ("opened",)
_REFUSALS = {
    "hongbao_refused_total": ("line", "reason"),
    "hongbao_refused_by_level_total": ("behind", "peer"),
    "hongbao_switch_refused_total": ("switch", "switch"),
    "hongbao_limited_total": ("limit", "limit"),
    "hongbao_daily_limit_total": ("daily", "limit"),
    "hongbao_admission_refused_total": ("cap", "cap"),
    "hongbao_link_refused_total": ("link", "peer"),
}
"""Counter → what refused, and the label that says why."""
START = "process_start_time_seconds"


class Deltas:
    """What counters of some processes have risen by between two looks; a process that restarted begins at 0."""

    def __init__(self, pairs: Iterable[tuple[Exposed | None, Exposed]]) -> None:
        # A process that was not seen before has counted for an unknown time: it has no rate yet.
        self._pairs = [(old if _same(old, new) else {}, new) for old, new in pairs if old is not None]

    def sum(self, name: str, **where: str) -> float:
        """Return by how much a counter has risen, over all processes and labels."""
        return sum(max(0.0, total(new, name, **where) - total(old, name, **where)) for old, new in self._pairs)

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return by how much a counter has risen, by a label; without those that have not."""
        sums: dict[str, float] = {}
        for old, new in self._pairs:
            before = by_label(old, name, label)
            for key, value in by_label(new, name, label).items():
                risen = value - before.get(key, 0.0)
                if risen > 0:
                    sums[key] = sums.get(key, 0.0) + risen
        return sums

    def mean(self, name: str) -> float | None:
        """Return the mean of a histogram's new observations; None if there is none."""
        count = self.sum(f"{name}_count")
        return self.sum(f"{name}_sum") / count if count else None

    def quantile(self, name: str, part: float) -> float | None:
        """Return a quantile of a histogram's new observations, interpolated in its bucket; None if there is none."""
        buckets = sorted((float(bound), count) for bound, count in self._buckets(name).items())
        if not buckets or buckets[-1][1] <= 0:
            return None
        wanted = buckets[-1][1] * part
        for (low, below), (high, upto) in pairwise([(0.0, 0.0), *buckets]):
            if upto >= wanted and upto > below:
                return low if high == float("inf") else low + (high - low) * (wanted - below) / (upto - below)
        return buckets[-1][0]

    def _buckets(self, name: str) -> dict[str, float]:
        sums: dict[str, float] = {}
        for old, new in self._pairs:
            before = by_label(old, f"{name}_bucket", "le")
            for key, value in by_label(new, f"{name}_bucket", "le").items():
                sums[key] = sums.get(key, 0.0) + max(0.0, value - before.get(key, 0.0))
        return sums


def figures(
    parts: Iterable[Part], before: Mapping[str, Exposed], now: Mapping[str, Exposed], seconds: float
) -> dict[str, Any]:
    """Return the figures of one sample: rates a second, waits in ms, money in fen; None where nothing was measured."""
    known = list(parts)

    def of(kind: Kind, set_name: str = "") -> tuple[Deltas, list[Exposed]]:
        names = [one.name for one in known if one.kind is kind and set_name in ("", one.set) and one.name in now]
        return Deltas((before.get(name), now[name]) for name in names), [now[name] for name in names]

    gateways, doors = of(Kind.GATEWAY)
    _, wallets = of(Kind.WALLET)
    everything = Deltas((before.get(name), exposed) for name, exposed in now.items())
    answered = gateways.by("hongbao_http_requests_total", "status")
    sets = sorted({one.set for one in known if one.kind is Kind.SETNODE})
    return {
        **_of_servers(*of(Kind.SETNODE), seconds),
        "requests": sum(answered.values()) / seconds,
        "errors": sum(count for status, count in answered.items() if status.startswith("5")) / seconds,
        "creates": gateways.sum("hongbao_http_requests_total", route="createEnvelope", status="201") / seconds,
        "line_ms": max((1e3 * total(one, "hongbao_line_wait_seconds") for one in doors), default=None),
        "http_p99_ms": _ms(gateways.quantile("hongbao_http_seconds", 0.99)),
        "connections": _sum(doors, "hongbao_http_connections"),
        # Each wallet of several reads the same database.
        "escrow_fen": max((total(one, "hongbao_wallet_escrow_fen") for one in wallets), default=None),
        "wallet_queue": _sum(wallets, "hongbao_wallet_queue_orders"),
        "refused": _refused(everything, seconds),
        "sets": {name: _of_servers(*of(Kind.SETNODE, name), seconds) for name in sets},
    }


def _of_servers(deltas: Deltas, exposed: list[Exposed], seconds: float) -> dict[str, Any]:
    return {
        "opens": deltas.sum("hongbao_opens_total") / seconds,
        "won": sum(deltas.sum("hongbao_opens_total", result=one) for one in _SHARES) / seconds,
        "box_p99_ms": _ms(deltas.quantile("hongbao_mailbox_wait_seconds", 0.99)),
        "commit_p50_ms": _ms(deltas.quantile("hongbao_commit_seconds", 0.5)),
        "commit_p99_ms": _ms(deltas.quantile("hongbao_commit_seconds", 0.99)),
        "batch": deltas.mean("hongbao_commit_batch_rows"),
        "waiting": _sum(exposed, "hongbao_mailbox_waiting"),
        "paid": deltas.sum("hongbao_payouts_total") / seconds,
        "lag_p99_ms": _ms(deltas.quantile("hongbao_payout_lag_seconds", 0.99)),
        "in_flight_fen": _sum(exposed, "hongbao_unreconciled_fen"),
    }


def _refused(deltas: Deltas, seconds: float) -> dict[str, float]:
    return {
        f"{what}:{why}": round(count / seconds, 2)
        for name, (what, label) in _REFUSALS.items()
        for why, count in sorted(deltas.by(name, label).items())
    }


def _sum(exposed: list[Exposed], name: str) -> float | None:
    return sum(total(one, name) for one in exposed) if exposed else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _same(old: Exposed | None, new: Exposed) -> bool:
    return old is not None and total(old, START) == total(new, START)
