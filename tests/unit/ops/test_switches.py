"""Switches at the operator's view: which databases were not reached stands in what was done."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ops.actions import Action, Actions, Do
from ops.journal import Journal
from ops.sessions import Role, Who
from switches.switch import Switch
from tests.clock import ManualClock
from tests.unit.switches.test_switch import TOPOLOGY


class Access:
    """An installation of which some databases are away."""

    def __init__(self) -> None:
        self.behind: tuple[str, ...] = ()
        self.on: list[Switch] = []
        self.clock = ManualClock(datetime(2026, 11, 26, 12, tzinfo=UTC))

    def topology(self) -> Any:
        return TOPOLOGY

    def publisher(self) -> "Access":
        return self

    async def change_switches(self, how: Any, now: datetime) -> list[Switch]:
        self.on = list(how(self.on))
        return self.on


@pytest.mark.parametrize("behind", [(), ("set-2",)])
async def test_what_was_not_reached_is_in_the_journal(tmp_path: Path, behind: tuple[str, ...]) -> None:
    """It is done, and not followed yet, with what to do; if all were reached, every process goes by it."""
    access, journal = Access(), Journal(tmp_path / "actions.jsonl")
    access.behind = behind
    actions = Actions(access, journal)  # type: ignore[arg-type]
    for number, do in enumerate((Do.SWITCH_ON, Do.SWITCH_OFF)):
        action = Action(id=f"{number}", do=do, target="creates", confirm="creates", reason="disk full", minutes=5)
        done = await actions.do(action, Who(Role.OPERATOR, "ann"))
        assert (done.changed, done.followed) == (True, not behind)
        assert ("not reached: set-2" in done.detail) is bool(behind)
    assert access.on == []
