"""What the drill concludes from its figures."""

import pytest

from loadtest.drill.command import BARS, conclude
from loadtest.drill.context import QUICK, Size

GOOD = {name: bar.most or bar.least or 0.0 for name, bar in BARS.items()}


@pytest.mark.parametrize(
    ("quick", "change", "holds", "slow"),
    [
        (True, {}, True, []),
        (False, {}, True, []),
        (True, {"export_per_s": 1.0, "stall_p999_ms": 51.0}, True, ["stall_p999_ms", "export_per_s"]),
        (False, {"export_per_s": 1.0}, False, []),
        (True, {"move_failed": 1}, False, []),
        (True, {"export_per_s": 1.0, "audit_violations": 1}, False, ["export_per_s"]),
    ],
)
def test_a_quick_drill_fails_for_faults_and_notes_speeds(quick, change, holds, slow) -> None:
    """At full size every bar counts; at a tenth a speed is a note, and money or failed requests never are."""
    found = conclude({**GOOD, **change}, [], QUICK if quick else Size(), quick=quick)
    assert (found["holds"], found["slow"]) == (holds, slow)


def test_a_drill_that_misses_a_figure_or_fails_does_not_hold() -> None:
    """A figure that nobody made, or a sentence of a step that failed, is no speed."""
    fewer = {name: value for name, value in GOOD.items() if name != "export_per_s"}
    assert not conclude(fewer, [], QUICK, quick=True)["holds"]
    assert not conclude(GOOD, ["a row was lost"], QUICK, quick=True)["holds"]
