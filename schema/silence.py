"""For how long the Postgres of a process has not answered it: while it answers no server of a SET, nobody is served."""

from collections.abc import Callable

from runtime import metrics

_silent = metrics.gauge(
    "hongbao_database_silent_seconds", "For how long this process's Postgres has not answered it", ("database",)
)


def publish(database: str, silent_s: Callable[[], float]) -> None:
    """Show a process's `silent_s` as a metric, as it is at each scrape: also while no look ends.

    `database`: the SET, or `wallet`; all who need the same Postgres say the same.
    """
    _silent.labels(database).set_function(silent_s)
