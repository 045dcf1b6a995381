"""A test that failed beside others counts as passed only if it passes again and again alone."""

import pytest

from tests.alone import MOST, REPEATS, node_ids, passed_alone


def asked(tests: list[str], outcomes: dict[str, list[bool]]) -> tuple[bool, list[str], list[str]]:
    """Return the verdict, who was asked, and what was told."""
    ran: list[str] = []
    told: list[str] = []

    def run(test: str) -> bool:
        ran.append(test)
        return outcomes[test].pop(0)

    return passed_alone(tests, run, told.append), ran, told


def test_who_passes_every_time_is_let_through_and_told() -> None:
    passed, ran, told = asked(["slow"], {"slow": [True] * REPEATS})
    assert (passed, ran) == (True, ["slow"] * REPEATS)
    assert told[0].startswith("PASSED ALONE  slow")


@pytest.mark.parametrize("failing", range(REPEATS))
def test_one_more_failure_is_enough(failing: int) -> None:
    """Whichever repetition fails; and one that passes beside it changes nothing."""
    passed, ran, told = asked(["bad", "slow"], {"bad": [True] * failing + [False], "slow": [True] * REPEATS})
    assert not passed
    assert ran == ["bad"] * (failing + 1) + ["slow"] * REPEATS
    assert told[0] == "FAILED ALONE  bad"


@pytest.mark.parametrize("tests", [[], [f"t{n}" for n in range(MOST + 1)]])
def test_nobody_is_asked_where_none_or_many_failed(tests: list[str]) -> None:
    """None on record: the run itself failed. Many: no accident."""
    assert asked(tests, {}) == (False, [], [])


def test_groups_of_xdist_are_no_part_of_an_id() -> None:
    keys = ["a.py::test_x@a.py", "a.py::test_x[u@h]", "a.py::test_x[1]@browser", "a.py::test_x"]
    assert node_ids(keys) == ["a.py::test_x", "a.py::test_x[u@h]", "a.py::test_x[1]", "a.py::test_x"]
