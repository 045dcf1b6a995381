"""The drill's witness: what each user was told, and how long a SET was silent."""

import json
from pathlib import Path

import pytest

from hosts.drill.journal import Journal
from hosts.drill.lane import Lane


@pytest.mark.parametrize(
    ("answers", "differs"),
    [
        ([("opened", 7), ("already_opened", 7)], []),
        ([("opened", 7), ("opened", 8)], ["7 fen, then 8 fen"]),
        ([("opened", 7), ("sold_out", None)], ["7 fen, then sold_out"]),
        ([("sold_out", None), ("opened", 7)], ["that no share is left, then of one"]),
        ([("sold_out", None), ("sold_out", None)], []),
    ],
)
def test_who_is_told_two_things_is_named(
    tmp_path: Path, answers: list[tuple[str, int | None]], differs: list[str]
) -> None:
    """Another amount, or a share that was there and is not, or the other way about."""
    with Journal(tmp_path / "journal") as journal:
        for result, amount_fen in answers:
            journal.told(journal.asks("open", envelope=1, user="u"), 1, "u", result, amount_fen)
    assert journal.wrong == [f"u was told of 1: {one}" for one in differs]


def test_the_file_has_a_line_for_each_request_and_each_answer(tmp_path: Path) -> None:
    """The number of the request is in both; a request without an answer stands alone."""
    with Journal(tmp_path / "journal") as journal:
        journal.asks("open", envelope=1, user="u")
        journal.told(journal.asks("open", envelope=1, user="v"), 1, "v", "opened", 7)
    lines = [json.loads(one) for one in (tmp_path / "journal").read_text().splitlines()]
    assert [(one["n"], one.get("user"), one.get("result")) for one in lines] == [
        (1, "u", None), (2, "v", None), (2, None, "opened"),
    ]  # fmt: skip
    assert journal.acknowledged == 1


def test_silence_is_without_a_share_won() -> None:
    """Answers from a server's memory do not end it; waits count all who were answered."""
    lane = Lane("set-1")
    for at, wait_s, won in ((1.0, 0.1, True), (2.0, 0.2, False), (5.0, 3.0, True)):
        lane.answer(at, wait_s, won=won)
    assert lane.longest_silence_s(0.5, 6.0) == 4.0
    assert lane.longest_silence_s(5.5, 9.0) == 3.5
    assert lane.p99_ms(0.0, 3.0) == 200.0
    assert lane.p99_ms(6.0, 7.0) is None
    assert lane.wins_since(1.0) == 1
