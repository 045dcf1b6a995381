"""The wallet's metrics, counted per batch, not per order."""

from collections import Counter
from collections.abc import Iterable, Sequence

from runtime import metrics
from schema.jobs import JobRun
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
_job_age = metrics.gauge(
    "hongbao_job_age_seconds",
    "Since a job (audit, backup, ...) last succeeded; if it never has, since it is known",
    ("task",),
)
_job_failed = metrics.gauge("hongbao_job_failed", "1 if a job has failed since it last succeeded", ("task",))
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


def show_jobs(runs: Iterable[JobRun]) -> None:
    """Show how all jobs stand, and none that is not known any more."""
    _job_age.clear()
    _job_failed.clear()
    for one in runs:
        _job_age.labels(one.job).set(one.age_s)
        _job_failed.labels(one.job).set(one.failed)
