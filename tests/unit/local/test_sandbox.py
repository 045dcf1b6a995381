"""A data folder is a sandbox's or a real installation's for ever; how far a sandbox's clock may be moved."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from errors import Refused
from installation import inventory, sandbox
from installation.access import Access
from installation.data_folder import DataFolder
from installation.inventory import Inventory
from installation.keys import Secrets
from local import clock_move
from local.clock_bounds import LATEST, MOST_DAYS, check_latest, read_move
from local.service import _inherited
from runtime.clock import SystemClock
from runtime.sandbox_clock import SETTING, SandboxClock
from sharding.ids import LAST_YEAR, end_id


def described(folder: DataFolder, *, of_sandbox: bool) -> Inventory:
    return Inventory(
        clusters={}, gateways={"gateway-1": "http://127.0.0.1:1"}, wallet_url="http://127.0.0.1:2",
        memcached="127.0.0.1:3",
        topology=str(folder.topology), archive=str(folder.archive), secrets=str(folder.secrets), sandbox=of_sandbox,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("+24h", timedelta(hours=24)),
        ("+90m", timedelta(minutes=90)),
        ("+3d", timedelta(days=3)),
        ("+1d12h", timedelta(hours=36)),
        ("+1d2h3m4s", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        (f"+{MOST_DAYS}d", timedelta(days=MOST_DAYS)),
    ],
)
def test_a_move_is_read(text: str, by: timedelta) -> None:
    """Days, hours, minutes and seconds, in this order, each or none of them."""
    assert read_move(text) == by


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("-1h", "move_backwards", "ahead only, not by -1h"),
        ("-abc", "move_backwards", "ahead only"),
        ("+0h", "move_backwards", "would not move the clock"),
        ("+0d0h", "move_backwards", "would not move the clock"),
        *((one, "move_malformed", "such as") for one in ("", "+", "24h", "+abc", "+1.5h", "+h", "+1h2d", "+1h1h")),
        *(
            (one, "move_malformed", "such as")
            for one in ("+ 1h", "+1H", "+24", "+-1h", "+\u0661h", "+1h\n", "+" + "9" * 5000)
        ),
        (f"+{MOST_DAYS}d1s", "move_too_far", "400 days at most"),
        ("+999999999999999d", "move_too_far", "400 days at most"),
    ],
)
def test_what_is_no_move_is_refused_in_a_sentence(text: str, code: str, said: str) -> None:
    """Backwards, none, nonsense and too far are each told apart, and the sentence is short whatever was written."""
    with pytest.raises(Refused, match=said) as refused:
        read_move(text)
    assert refused.value.code == code
    assert len(refused.value.detail) < 200


def test_a_sandbox_ends_where_ids_end() -> None:
    """The last instant still has IDs for its day and the days whose tables are made ahead; a second more is refused."""
    check_latest(LATEST)
    assert end_id(LATEST.date() + timedelta(days=10)) < 2**63
    with pytest.raises(Refused, match=f"no year after {LAST_YEAR}") as refused:
        check_latest(LATEST + timedelta(seconds=1))
    assert refused.value.code == "move_too_far"


def test_a_first_start_decides_what_a_folder_is(tmp_path: Path) -> None:
    """An empty folder becomes a sandbox's by a start with --sandbox, and keeps its time; without one it stays real."""
    folder = DataFolder(tmp_path)
    assert isinstance(sandbox.take(folder, sandbox=False), SystemClock)
    assert not sandbox.is_sandbox(folder)
    assert isinstance(sandbox.take(folder, sandbox=True), SandboxClock)
    SandboxClock(folder.sandbox_clock, writable=True).set_ahead(5000)
    again = sandbox.take(folder, sandbox=True)
    assert isinstance(again, SandboxClock)
    assert again.ahead_ms == 5000


@pytest.mark.parametrize("mark", ["clock", "inventory"])
def test_a_sandbox_is_never_started_as_a_real_one(tmp_path: Path, mark: str) -> None:
    """Each of its two marks alone is enough."""
    folder = DataFolder(tmp_path)
    if mark == "clock":
        SandboxClock.create(folder.sandbox_clock)
    else:
        inventory.save(described(folder, of_sandbox=True), folder.inventory)
    with pytest.raises(Refused, match=r"start it with \./run --sandbox") as refused:
        sandbox.take(folder, sandbox=False)
    assert refused.value.code == "is_sandbox"


@pytest.mark.parametrize("there", ["secrets.json", "topology.json", "installation.toml", "postgres"])
def test_a_real_one_is_never_started_as_a_sandbox(tmp_path: Path, there: str) -> None:
    """Anything that an earlier start has made is enough, and no clock is put beside it."""
    folder = DataFolder(tmp_path)
    if there == "postgres":
        folder.clusters.mkdir()
    elif there == "installation.toml":
        inventory.save(described(folder, of_sandbox=False), folder.inventory)
    else:
        (tmp_path / there).write_text("{}")
    with pytest.raises(Refused, match="without --sandbox") as refused:
        sandbox.take(folder, sandbox=True)
    assert refused.value.code == "is_real"
    assert not folder.sandbox_clock.exists()


def test_a_sandbox_without_its_clock_is_refused(tmp_path: Path) -> None:
    """Its people live in a time that nobody knows any more: no start, and no token by another time."""
    folder = DataFolder(tmp_path)
    inventory.save(described(folder, of_sandbox=True), folder.inventory)
    for attempt in (lambda: sandbox.take(folder, sandbox=True), lambda: sandbox.clock_of(folder)):
        with pytest.raises(Refused, match="bring it back") as refused:
            attempt()
        assert refused.value.code == "sandbox_clock_missing"


async def test_a_real_clock_is_not_moved(tmp_path: Path) -> None:
    """The refusal says how to start a sandbox."""
    folder = DataFolder(tmp_path)
    access = Access(described(folder, of_sandbox=False), Secrets.load(folder.secrets))

    async def no_room() -> None:
        raise AssertionError("nothing was moved")

    with pytest.raises(Refused, match=r"never moved; \./run --sandbox") as moved:
        await clock_move.move(folder, access, timedelta(hours=1), 0, no_room)
    assert moved.value.code == "not_a_sandbox"
    assert list(tmp_path.iterdir()) == []


async def test_a_sandbox_is_moved_only_while_it_runs(tmp_path: Path) -> None:
    """Its databases go by the clock, too, and cannot be asked while nothing runs: refused, and nothing is moved."""
    folder = DataFolder(tmp_path)
    clock = sandbox.take(folder, sandbox=True)
    access = Access(described(folder, of_sandbox=True), Secrets.load(folder.secrets), clock)

    async def no_room() -> None:
        raise AssertionError("nothing was moved")

    with pytest.raises(Refused, match=r"start it with \./run --sandbox") as refused:
        await clock_move.move(folder, access, timedelta(hours=1), 0, no_room)
    assert refused.value.code == "not_up"
    assert clock.now() - datetime.now(UTC) < timedelta(minutes=1)


def test_no_process_inherits_a_clock_from_whoever_calls_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox's setting that is left in a shell does not reach the processes of a real installation."""
    monkeypatch.setenv(SETTING, "/somewhere/sandbox-clock")
    monkeypatch.setenv("HONGBAO_TLS_CERT", "/operator.pem")
    monkeypatch.setenv("HONGBAO_WINS_PER_DAY", "3")
    found = _inherited()
    assert SETTING not in found
    assert not [name for name in found if name.startswith("HONGBAO_TLS_")]
    assert found["HONGBAO_WINS_PER_DAY"] == "3"
