"""The wallet's metrics, counted per batch, not per order."""

from collections import Counter
from collections.abc import Sequence

from runtime import metrics
from wallet.decide import Plan
from wallet.postings import TransferKind

transfers = metrics.counter(
    "hongbao_wallet_transfers_total", "Orders by kind and what became of them", ("kind", "result")
)
batch_orders = metrics.sizes("hongbao_wallet_batch_orders", "Orders per transaction")
commit_seconds = metrics.seconds("hongbao_wallet_commit_seconds", "From taking a batch to its commit, with retries")
queue_depth = metrics.gauge("hongbao_wallet_queue_orders", "Orders waiting for a transaction")
attempts = metrics.counter("hongbao_wallet_attempts_total", "Transactions tried, by how they ended", ("end",))
escrow_fen = metrics.gauge("hongbao_wallet_escrow_fen", "Money in escrow")
broken = metrics.counter("hongbao_wallet_invariant_broken_total", "Broken invariants", ("check",))
provider_calls = metrics.counter("hongbao_wallet_provider_calls_total", "Calls to the provider", ("call", "answer"))


def count(plan: Plan, refused: Sequence[str]) -> None:
    """Count the postings of a committed plan, its replays, and `refused`: the reasons of refusals in its answers."""
    for kind, number in Counter(posting.kind for posting in plan.postings).items():
        transfers.labels(TransferKind(kind).name.lower(), "done").inc(number)
    if plan.replays:
        transfers.labels("any", "replayed").inc(plan.replays)
    for reason, number in Counter(refused).items():
        transfers.labels("any", reason).inc(number)
