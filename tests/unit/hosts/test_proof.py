"""The journal compared with the rows: each way in which they can differ is found."""

from pathlib import Path

import pytest

from hosts.drill.journal import Journal
from hosts.drill.proof import Found, _compare_one


@pytest.mark.parametrize(
    ("rows", "missing", "wrong"),
    [
        ({"won": 7, "unheard": 5}, 0, 0),
        ({"unheard": 5}, 1, 0),
        ({"won": 8}, 0, 1),
        ({"won": 7, "late": 3}, 0, 1),
        ({}, 1, 0),
    ],
)
def test_every_difference_is_counted_and_named(tmp_path: Path, rows: dict[str, int], missing: int, wrong: int) -> None:
    """An answer without a row, a row of another amount, a row of somebody who was told that none is left.

    A row of somebody who never had an answer is none: the answer was lost, not the share.
    """
    found = Found()
    with Journal(tmp_path / "journal") as journal:
        journal.asks("open", envelope=1, user="unheard")
        journal.told(journal.asks("open", envelope=1, user="won"), 1, "won", "opened", 7)
        journal.told(journal.asks("open", envelope=1, user="late"), 1, "late", "sold_out", None)
        _compare_one(1, journal, rows, found)
    assert (found.missing, found.wrong, len(found.sentences)) == (missing, wrong, missing + wrong)
    assert found.holds is not bool(missing + wrong)
