"""One flipped bit in a text of a file or a message: it is no UTF-8 any more, and is taken as any other damage."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from doctor.place import _topology
from errors import Refused
from local import running
from ops.journal import Done, Journal
from ops.routes import _body, _LoginBody
from sharding.topology import file as topology_file
from switches.file import adopt, as_text, kept, load
from switches.switch import Closes, Switch
from switches.switchboard import Switchboard
from tests.clock import ManualClock

NOW = datetime(2026, 11, 27, tzinfo=UTC)
ON = Switch(closes=Closes.CREATES, owner="a", reason="because", since=NOW, until=NOW + timedelta(hours=1))
TOPOLOGY = b'{"version": 1, "time_zone": "Asia/\xffhanghai"}'
NESTED = b'{"version": 1, "switches": ' + b"[" * 100_000


@pytest.fixture(params=["a bad byte", "a deep nest"])
def switches(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "switches.json"
    path.write_bytes(
        NESTED if "nest" in request.param else as_text([ON], 3).encode().replace(b"because", b"bec\xffuse")
    )
    return path


def test_switches_are_refused_and_replaced(switches: Path) -> None:
    with pytest.raises(Refused):
        load(switches)
    assert adopt(switches, as_text([ON], 4), 4)
    assert kept(switches).decisions == [ON]


def test_a_process_starts_beside_damaged_switches(switches: Path) -> None:
    assert not Switchboard(switches, ManualClock(NOW), lambda: None).closed


def test_a_switch_ends_at_its_time_though_the_file_is_damaged(tmp_path: Path) -> None:
    clock, path = ManualClock(NOW), tmp_path / "switches.json"
    path.write_text(as_text([ON], 3))
    board = Switchboard(path, clock, lambda: None)
    assert board.closed
    path.write_bytes(path.read_bytes().replace(b"because", b"bec\xffuse"))
    clock.advance(hours=2)
    board.look()
    assert not board.closed


def test_a_topology_is_refused_and_the_doctor_names_it(tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    path.write_bytes(TOPOLOGY)
    with pytest.raises(Refused):
        topology_file.parse(TOPOLOGY, path)
    troubles: list[Any] = []
    access: Any = SimpleNamespace(topology_path=path, topology=lambda: topology_file.load(path))
    assert _topology(access, troubles) is None
    assert [one.subject for one in troubles] == [str(path)]


def test_what_runs_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "running.json"
    path.write_bytes(b'{"pid": 1, "since": "\xff", "parts": []}')
    with pytest.raises(Refused) as refused:
        running.load(path)
    assert refused.value.code == "running_unreadable"


def test_the_operators_view_begins_beside_a_damaged_line_of_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "ops-actions.jsonl"
    done = {"id": "a" * 8, "at": "x", "who": "w", "do": "drain", "target": "t", "reason": "because"}
    Journal(path).add(Done(**done, changed=True, followed=True, detail=""))
    path.write_bytes(path.read_bytes().replace(b"because", b"bec\xffuse"))
    Journal(path)


async def test_a_login_to_it_is_refused() -> None:
    async def read() -> bytes:
        return b'{"key":"\xff"}'

    request: Any = SimpleNamespace(content_type="application/json", read=read)
    with pytest.raises(Refused):
        await _body(request, _LoginBody)
