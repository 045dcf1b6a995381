"""`switch on` and `switch off` in a bad hour: closed before anything is counted, and said where it is not."""

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner

from cli.commands import switch as command
from inspection import switch_effect
from switches.switch import Closes, Switch
from tests.clock import ManualClock
from tests.unit.switches.test_switch import TOPOLOGY

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


class Bad:
    """An installation in a bad hour, as the command finds it; `done` is what it did, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.behind: tuple[str, ...] = ()
        self.on: list[Switch] = []
        self.decisions: list[Switch] = []
        self.clock = ManualClock(NOW)
        self.topology_path = Path("/nowhere/topology.json")
        self.gateway_url = "http://127.0.0.1:1"

    def topology(self) -> Any:
        return TOPOLOGY

    def today(self) -> Any:
        return NOW.date()

    def set_dsn(self, name: str) -> str:
        return name

    def metrics_headers(self) -> dict[str, str]:
        return {}

    def publisher(self) -> "Bad":
        return self

    async def change_switches(self, how: Any, now: datetime) -> list[Switch]:
        self.done.append("published")
        before, self.on = self.on, list(how(self.on))
        self.decisions += [one for one in before if one not in self.on]
        return self.on


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> Bad:
    one = Bad()

    class Connection:
        async def __aenter__(self) -> Any:
            one.done.append("counted")

            async def lost(*_: Any) -> None:
                raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

            return SimpleNamespace(fetchval=lost)

        async def __aexit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(command, "find_current", lambda _: one)
    monkeypatch.setattr(switch_effect.postgres, "connected", lambda _: Connection())
    return one


def run(*words: str) -> tuple[int, str]:
    told = CliRunner().invoke(command.command, words)
    return told.exit_code, told.output


def test_it_is_closed_before_anything_is_counted(bad: Bad) -> None:
    """The SET's Postgres ends connections just then: it is closed all the same, and what was lost is left out."""
    code, said = run("on", "payouts", "--reason", "channel down", "--json")
    assert code == 0, said
    assert json.loads(said)["hits"]["unpaid"] is None
    assert bad.done[0] == "published"
    assert "counted" in bad.done
    assert [one.closes for one in bad.on] == [Closes.PAYOUTS]


def test_a_trial_publishes_nothing(bad: Bad) -> None:
    """It counts alone."""
    assert run("on", "payouts", "--reason", "x", "--dry-run")[0] == 0
    assert "published" not in bad.done


def test_what_was_not_reached_is_said(bad: Bad) -> None:
    """By both commands, to people and as JSON; if all were reached, there is nothing to say."""
    assert "not reached" not in run("on", "payouts", "--reason", "x")[1]
    bad.behind = ("wallet", "set-2")
    assert "not reached: wallet, set-2." in run("on", "payouts", "--reason", "x")[1]
    assert json.loads(run("on", "payouts", "--reason", "x", "--json")[1])["not_reached"] == ["wallet", "set-2"]
    said = run("off", "payouts")[1]
    assert "payouts: open again within a second" in said
    assert "not reached: wallet, set-2." in said


@pytest.mark.parametrize("name", ["creates:", "payouts: "])
def test_an_empty_place_is_refused(bad: Bad, name: str) -> None:
    """A variable of a script that is not set: everywhere is another order."""
    for words in (("on", name, "--reason", "x"), ("off", name)):
        told = CliRunner().invoke(command.command, words)
        assert told.exit_code != 0
        assert "names no place after the colon" in str(told.exception)
    assert bad.done == []
