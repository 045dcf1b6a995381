"""What `backup restore` says that it reached, and whether that is all."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from cli.commands.backup_restoring import NO_AUDIT, Restored
from recovery.claims import LostClaims


def restored(paid: LostClaims | None, why: str = NO_AUDIT) -> Restored:
    return Restored("set-1", Path("/restored"), datetime(2026, 11, 27, tzinfo=UTC), None, 1.0, None, why, paid)


@pytest.mark.parametrize(("envelopes", "holds"), [(0, True), (250, False)])
def test_paid_claims_that_are_not_put_back_are_told_in_full(envelopes: int, holds: bool) -> None:
    """A hundred by name, all of them as a number, and the exit status is not 0."""
    paid = LostClaims()
    for number in range(envelopes):
        paid.leave(number, 3, "3 paid claims from 2 on: log_is_dense")
    one = restored(paid)
    console = Console(record=True, width=200)
    one.show(console)
    said, told = console.export_text(), one.as_json()
    assert one.holds is holds
    assert (told["not_put_back_count"], told["not_put_back_claims"]) == (envelopes, 3 * envelopes)
    assert len(told["not_put_back"]) == said.count("\nnot put back: ") == min(envelopes, 100)
    assert ("and 150 envelopes more" in said, "750 paid claims not put back" in said) == (not holds, not holds)


def test_a_copy_that_was_to_be_audited_and_was_not_is_not_all() -> None:
    """Nor is one whose log ended as it should, if nobody could look."""
    assert restored(None).holds
    assert not restored(None, "the wallet does not answer").holds
