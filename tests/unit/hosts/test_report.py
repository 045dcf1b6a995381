"""The drill's figures, their bars, and a table that fits a terminal of 80 columns."""

import io

from rich.console import Console

from hosts.drill.proof import Found
from hosts.drill.report import report_of, show
from hosts.drill.run import STEPS, Outcome, Step


def step(letter: str) -> Step:
    return next(one for one in STEPS if one.letter == letter)


def outcomes() -> list[Outcome]:
    return [
        Outcome(
            one, seconds=29.1, acknowledged=123_456, silence_s=24.94, other_silence_s=36.51, calm_p99_ms=1234.5,
            other_p99_ms=1851.0, failed={"outcome_unknown": 12_345} if one.letter != "h" else {},
        )
        for one in STEPS
    ]  # fmt: skip


def test_all_within_their_bars_holds() -> None:
    """Each figure stands in the report; one of a step that was not taken is None."""
    found = report_of(outcomes(), Found(), 1_000_000)
    assert found["holds"]
    assert (found["failover_s"], found["partition_s"], found["other_set_p99"]) == (24.94, 24.94, 1.5)
    assert (found["acknowledged"], found["upgrade_failed"], found["restore_lost"]) == (1_000_000, 0, 0)
    without = report_of([one for one in outcomes() if one.step.letter == "c"], Found(), 1)
    assert (without["failover_s"], without["upgrade_failed"], without["restore_lost"]) == (None, None, None)
    assert without["holds"]


def test_what_misses_a_bar_is_a_sentence() -> None:
    """One late failover, a request that failed in the roll, an answer without a row, a step that broke off."""
    late = Outcome(step("a"), silence_s=25.1)
    failed = Outcome(step("h"), failed={"no_answer": 1})
    lost = Outcome(step("j"), found=Found(missing=2), error="no_answers: set-2 has answered nobody")
    found = report_of([late, failed, lost], Found(), 1)
    assert found["missed"] == [
        "missing is 2, and must be 0",
        "upgrade_failed is 1, and must be 0",
        "restore_lost is 2, and must be 0",
        "failover_s is 25.1, and may be 25",
        "step j did not end well: no_answers: set-2 has answered nobody",
    ]
    assert not found["holds"]


def test_the_table_fits_80_columns() -> None:
    """Also with figures as long as they get."""
    printed = io.StringIO()
    show(report_of(outcomes(), Found(), 1_000_000), Console(file=printed, width=200))
    lines = printed.getvalue().splitlines()
    assert max(len(one.rstrip()) for one in lines) <= 80
    assert [one.split()[0] for one in lines if "123456" in one] == [one.letter for one in STEPS]
    assert "a alarms: none" in lines
