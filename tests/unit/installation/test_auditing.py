"""An audit that something moved under is made again, and ends all the same."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from audit.report import Report
from errors import Unavailable
from installation import auditing
from installation.auditing import TRIES, audit_until_still


class Seen(NamedTuple):
    """A topology, as far as an audit compares it."""

    epoch_of: int


def report(*subjects: str) -> Report:
    """A report that names these."""
    made = Report()
    for subject in subjects:
        made.add("fund_matches_envelope", subject, "it does not", 100)
    return made


async def audited(
    reports: Iterator[Report],
    monkeypatch: pytest.MonkeyPatch,
    *,
    moved: bool | list[bool],
    epochs: Iterator[int] | None = None,
) -> Report:
    """Audit; `moved`: whether a user is forgotten meanwhile, each time or by turns; `epochs` of the topology."""
    seen = epochs or itertools.repeat(1)
    turns = iter(moved) if isinstance(moved, list) else itertools.repeat(moved)

    async def once(_topology: Any) -> Report:
        return next(reports)

    async def forgot(_dsn: str, _seconds: float) -> bool:
        return next(turns)

    monkeypatch.setattr(auditing, "forgot_meanwhile", forgot)

    def topology() -> Any:
        return Seen(next(seen))

    return await audit_until_still(once, topology, "")


async def test_what_nothing_has_moved_under_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """One audit is enough while nothing moves, whether it holds or not."""
    found = await audited(iter([report("1", "2")]), monkeypatch, moved=False)
    assert (found.count, found.unreconciled_fen) == (2, 200)


async def test_what_all_audits_find_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """If something moves during every audit, a violation that each of them finds is reported, and no other."""
    reports = [report(f"moved-{number}", "real") for number in range(TRIES)]
    found = await audited(iter(reports), monkeypatch, moved=True)
    assert [one.subject for one in found.violations] == ["real"]
    assert (found.count, found.unreconciled_fen) == (1, 100)


async def test_an_audit_under_which_nothing_moved_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its violations are reported, also those that the audit before it did not find."""
    found = await audited(iter([report("moved-1"), report("new")]), monkeypatch, moved=[True, False])
    assert [one.subject for one in found.violations] == ["new"]


async def test_what_is_new_in_the_last_audit_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be real: an audit that found something, and in common with the one before nothing, does not hold."""
    reports = iter([report("moved-1"), report("moved-2"), report("moved-3", "new")])
    with pytest.raises(Unavailable, match="each found something else"):
        await audited(reports, monkeypatch, moved=True)
    began_after_the_first = iter([report("moved-1"), report("moved-2", "new"), report("moved-3", "new")])
    found = await audited(began_after_the_first, monkeypatch, moved=True)
    assert [one.subject for one in found.violations] == ["new"]


async def test_an_audit_that_holds_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever moved, and whatever the one before has found."""
    assert (await audited(iter([report("moved-1"), report()]), monkeypatch, moved=True)).holds


async def test_an_audit_during_which_a_database_moved_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one during which a user was forgotten."""
    reports = iter([report("moved-1"), report()])
    assert (await audited(reports, monkeypatch, moved=False, epochs=itertools.count())).holds
