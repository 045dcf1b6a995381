"""Rates and quantiles of the second between two looks, also over restarts."""

import pytest

from installation.parts import Kind
from ops.exposition import read
from ops.figures import Deltas, figures
from ops.parts import Part


def exposed(started: int, opens: int, *, fast: int = 0, slow: int = 0) -> str:
    return (
        f"process_start_time_seconds {started}\n"
        f'hongbao_opens_total{{result="opened"}} {opens}\n'
        f'hongbao_commit_seconds_bucket{{le="0.01"}} {fast}\n'
        f'hongbao_commit_seconds_bucket{{le="0.1"}} {fast + slow}\n'
        f'hongbao_commit_seconds_bucket{{le="+Inf"}} {fast + slow}\n'
    )


def test_a_process_that_restarted_begins_at_zero() -> None:
    """Its counters are no fall; one that was not seen before has no rate yet."""
    before, now = read(exposed(1, 1_000)), read(exposed(2, 7))
    assert Deltas([(before, now)]).sum("hongbao_opens_total") == 7
    assert Deltas([(None, now)]).sum("hongbao_opens_total") == 0
    assert Deltas([(before, read(exposed(1, 1_050)))]).sum("hongbao_opens_total", result="opened") == 50
    assert Deltas([(before, read(exposed(1, 1_050)))]).by("hongbao_opens_total", "result") == {"opened": 50}


def test_quantiles_are_of_what_is_new() -> None:
    """Old observations do not count, those of all processes do, and without any there is no number."""
    quiet = read(exposed(1, 0, fast=90))
    assert Deltas([(quiet, quiet)]).quantile("hongbao_commit_seconds", 0.99) is None
    one, other = read(exposed(1, 0, fast=190)), read(exposed(1, 0, fast=90, slow=100))
    both = Deltas([(quiet, one), (quiet, other)])
    assert both.quantile("hongbao_commit_seconds", 0.25) == pytest.approx(0.005)
    assert both.quantile("hongbao_commit_seconds", 0.75) == pytest.approx(0.055)


def test_a_set_has_figures_of_its_own() -> None:
    """Opens are counted for all and by SET; a SET whose servers are away has no waiting requests, not zero of them."""
    parts = [
        Part(name="set-1-a", kind=Kind.SETNODE, set="set-1", address="a"),
        Part(name="set-2-a", kind=Kind.SETNODE, set="set-2", address="b"),
    ]
    before, now = {"set-1-a": read(exposed(1, 10))}, {"set-1-a": read(exposed(1, 30))}
    found = figures(parts, before, now, 2.0)
    assert (found["opens"], found["sets"]["set-1"]["opens"], found["sets"]["set-2"]["opens"]) == (10, 10, 0)
    assert (found["sets"]["set-1"]["waiting"], found["sets"]["set-2"]["waiting"]) == (0, None)
