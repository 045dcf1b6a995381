"""An audit that something moved under is made again, and ends all the same."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from audit.report import Report
from installation import auditing
from installation.auditing import TRIES, audit_until_still


class Still:
    """A topology that has not changed."""

    epoch_of = 1


def report(*subjects: str) -> Report:
    """A report that names these."""
    made = Report()
    for subject in subjects:
        made.add("fund_matches_envelope", subject, "it does not", 100)
    return made


async def audited(reports: Iterator[Report], monkeypatch: pytest.MonkeyPatch, *, moved: bool | list[bool]) -> Report:
    """Audit; `moved`: whether a user is forgotten meanwhile, each time or by turns."""
    turns = iter(moved) if isinstance(moved, list) else itertools.repeat(moved)

    async def once(_topology: Any) -> Report:
        return next(reports)

    async def forgot(_dsn: str, _seconds: float) -> bool:
        return next(turns)

    monkeypatch.setattr(auditing, "forgot_meanwhile", forgot)
    topology: Any = Still()
    return await audit_until_still(once, lambda: topology, "")


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
    """What it finds is told in full, also what the one before did not find."""
    found = await audited(iter([report("moved-1"), report("new")]), monkeypatch, moved=[True, False])
    assert [one.subject for one in found.violations] == ["new"]


async def test_what_no_two_audits_find_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second audit ends it if it finds nothing that the first has found."""
    reports = iter([report("moved-1"), report("moved-2")])
    assert (await audited(reports, monkeypatch, moved=True)).holds
