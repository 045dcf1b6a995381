"""Each check of `hongbao doctor` on its own: what it calls well, what it calls wrong, and what it says to do."""

import grp
import os
import pwd
import socket
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from importlib import metadata
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from archive.states import State
from backup.folder import LogState
from doctor import (
    archives,
    backup_log,
    closed,
    clusters,
    days,
    disk,
    files,
    forgetting,
    open_files,
    parts,
    payouts,
    ports,
    programs,
)
from doctor.clock import clock, jump_s
from doctor.finding import Finding, Level, all_is_well
from doctor.limits import EARLY_S
from doctor.place import Place, look
from gateway.limits import CONNECTIONS, SPARE_FILES
from installation import inventory
from installation.inventory import Cluster, Inventory
from installation.inventory import load as load_inventory
from installation.keys import Secrets
from local.crashes import count_ends
from local.running import Running, RunningPart
from local.supervisor_log import SupervisorLog
from machine.debian_programs import installed_program
from machine.logfile import LogFile
from machine.postgres.server import MIN_FREE_BYTES, MIN_FREE_TO_MAKE_BYTES
from machine.writers import other_writers
from rotation.facts import DayFacts
from rotation.plan import AheadPlan, Alarm, Rules, plan_day
from rotation.survey import Survey
from schema import roles
from setnode.services.payouts.stuck import StuckPayout
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from switches.switch import Closes, Switch

TODAY = date(2026, 11, 26)
NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


def levels(found: Iterable[Finding]) -> list[Level]:
    return [one.level for one in found]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder as a start leaves it, with one SET; its servers listen at ports that nothing has."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    names = ("wallet", "set-1")
    secrets = Secrets.load(folder / "secrets.json")
    secrets.ensure({name: roles.roles_of("wallet" if name == "wallet" else "set") for name in names})
    clusters = {}
    for name in names:
        at = f"127.0.0.1:{free_port()}"
        known = (*roles.roles_of("wallet" if name == "wallet" else "set"), "postgres", roles.AUDIT, roles.OWNER)
        clusters[name] = Cluster(dsns={role: f"postgresql://{role}@{at}/hongbao" for role in known})
    wallet, servers = f"http://127.0.0.1:{free_port()}", (ServerSpec("set-1-a", f"http://127.0.0.1:{free_port()}"),)
    dump(Topology(1, 10, (SetSpec("set-1", servers),), wallet), folder / "topology.json")
    inventory.save(Inventory(
        clusters=clusters, runner=True, gateways={"gateway-1": f"http://127.0.0.1:{free_port()}"}, wallet_url=wallet,
        memcached="/none",
        topology=str(folder / "topology.json"), archive=str(folder / "archive"), secrets=str(folder / "secrets.json"),
    ), folder / "installation.toml")  # fmt: skip
    return folder


# What is read at first.


def test_a_damaged_topology_is_told_with_the_file(data: Path) -> None:
    """The place has no topology then, and the finding names the file to bring back."""
    assert levels(look(data).troubles) == [Level.OK, Level.OK]
    (data / "topology.json").write_text('{"version": "x"}')
    place = look(data)
    (wrong,) = [one for one in place.troubles if one.level is Level.WRONG]
    assert (place.topology, wrong.check) == (None, "topology")
    assert str(data / "topology.json") in wrong.do


def test_a_stack_that_was_killed_is_wrong_and_one_that_was_stopped_is_not(data: Path) -> None:
    """A file of what runs whose process is gone is left by a kill."""
    assert all_is_well(look(data).troubles)
    Running(pid=2**22 + 1, since=NOW.isoformat(), parts=[]).save(data / "running.json")
    (wrong,) = [one for one in look(data).troubles if one.level is Level.WRONG]
    assert (wrong.check, "was killed" in wrong.what, "./run starts it" in wrong.do) == ("stack", True, True)


def test_an_archive_whose_place_is_away_is_wrong(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On many hosts the folder must be there, on one a rotation makes it; of a bucket without a login it is said."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY_FILE", "/nowhere/key")
    assert archives.archives(look(data)) == []
    known = load_inventory(data / "installation.toml")
    inventory.save(msgspec.structs.replace(known, runner=False), data / "installation.toml")
    (wrong,) = archives.archives(look(data))
    assert (wrong.level, str(data / "archive") in wrong.what) == (Level.WRONG, True)
    (data / "archive").mkdir()
    assert levels(archives.archives(look(data))) == [Level.OK]
    inventory.save(msgspec.structs.replace(known, archive="s3://of-nobody/archive"), data / "installation.toml")
    (wrong,) = archives.archives(look(data))
    assert (wrong.level, "AWS_" in wrong.what) == (Level.WRONG, True), wrong


# Programs.


def test_a_package_that_does_not_fit_is_named_with_both_versions() -> None:
    """One that fits is no finding; a wrong version and a missing package are wrong."""
    found = metadata.version("click")
    assert programs.unfit(Requirement(f"click=={found}")) is None
    wrong = programs.unfit(Requirement("click>=999"))
    assert wrong is not None
    assert (wrong.level, found in wrong.what, ">=999" in wrong.what) == (Level.WRONG, True, True)
    missing = programs.unfit(Requirement("no-such-package-as-this"))
    assert missing is not None
    assert "is not installed" in missing.what


def test_a_python_that_is_too_old_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is compared with what the package asks for."""
    place = look(Path("/nowhere"))
    assert levels(programs.python(place)) == [Level.OK]
    monkeypatch.setattr(programs.platform, "python_version", lambda: "3.10.4")
    (wrong,) = programs.python(place)
    assert (wrong.level, "3.10.4" in wrong.what, "HONGBAO_PYTHON" in wrong.do) == (Level.WRONG, True, True)


def test_a_folder_without_postgres_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HONGBAO_PG_BIN that names no Postgres is told with the folder."""
    monkeypatch.setenv("HONGBAO_PG_BIN", str(tmp_path))
    (wrong,) = programs.postgres(look(tmp_path))
    assert (wrong.level, str(tmp_path) in wrong.what) == (Level.WRONG, True)


def test_a_program_that_would_be_fetched_is_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Looking fetches nothing: what is neither on PATH nor in the folder of fetched programs is None."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed_program("memcached", tmp_path) is None
    fetched = tmp_path / "usr" / "sbin" / "haproxy"
    fetched.parent.mkdir(parents=True)
    fetched.touch()
    assert installed_program("haproxy", tmp_path) == fetched
    monkeypatch.setattr(programs, "installed_program", lambda *_, **__: None)
    assert levels(programs.memcached(look(tmp_path))) == [Level.SOON]
    (note,) = programs.optional(look(tmp_path))
    assert (note.level, all(one.name in note.what for one in programs.OPTIONAL)) == (Level.NOTE, True)


def test_a_cluster_that_is_not_there_is_wrong(data: Path) -> None:
    """As a start refuses it: an unmounted disk is told, with what to do."""
    found = list(clusters.clusters(look(data)))
    assert [(one.subject, one.level) for one in found] == [("wallet", Level.WRONG), ("set-1", Level.WRONG)]
    assert "is not there" in found[0].what
    assert "Mount its disk" in found[0].do


# Files.


@pytest.mark.parametrize("name", ["secrets.json", "topology.json", "installation.toml", "logs/wallet.log"])
def test_a_file_that_others_can_read_is_wrong(data: Path, name: str) -> None:
    """Keys, addresses and logs are their owner's alone; the command to mend it is said."""
    path = data / name
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600)
    assert levels(files.private(look(data))) == [Level.OK]
    path.chmod(0o640)
    (wrong,) = files.private(look(data))
    assert (wrong.level, wrong.subject, f"chmod 600 '{path}'" in wrong.do) == (Level.WRONG, str(path), True)


def test_a_folder_in_which_all_may_write_is_wrong(data: Path) -> None:
    """A start is refused there."""
    data.chmod(0o777)
    assert levels(files.private(look(data))) == [Level.WRONG]


def test_a_group_that_may_write_is_named_unless_the_owner_is_alone_in_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many systems give each user a group of their own, and let it write."""
    data.chmod(0o770)
    me = pwd.getpwuid(os.geteuid())
    groups = {"alone": [me.pw_name], "staff": [me.pw_name, "somebody"]}
    for name, members in groups.items():
        entry = grp.struct_group((name, "x", me.pw_gid, members))
        monkeypatch.setattr(grp, "getgrgid", lambda gid, entry=entry: entry)
        monkeypatch.setattr(pwd, "getpwall", lambda: [me])
        assert other_writers(data) == ("" if name == "alone" else "the group staff")
    # Whose first group it is, is in it, too.
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("users", "x", gid, [])))
    monkeypatch.setattr(pwd, "getpwall", lambda: [me, pwd.struct_passwd(("other", "x", 4711, me.pw_gid, "", "/", ""))])
    assert other_writers(data) == "the group users"
    (wrong,) = files.private(look(data))
    assert wrong.what == f"The group users may write to {data}: the next start is refused."


def test_a_key_that_is_missing_beside_a_cluster_is_wrong(data: Path) -> None:
    """Without clusters nothing is lost; beside one the lost key is named."""
    (data / "secrets.json").write_text("{}")
    assert list(files.secrets(look(data))) == []
    (data / "postgres" / "set-1").mkdir(parents=True)
    (data / "postgres" / "set-1" / "PG_VERSION").write_text("18")
    (wrong,) = files.secrets(look(data))
    assert ("ARCHIVE_KEY" in wrong.what, "where the backups are" in wrong.do) == (True, True)


# The machine.


@pytest.mark.parametrize(
    ("free", "level"),
    [
        (MIN_FREE_BYTES - 1, Level.WRONG),
        (MIN_FREE_BYTES, Level.SOON),
        (MIN_FREE_TO_MAKE_BYTES - 1, Level.SOON),
        (MIN_FREE_TO_MAKE_BYTES, Level.OK),
    ],
)
def test_disk_space_is_judged_by_what_a_start_needs(free: int, level: Level) -> None:
    """Below the least of a start it is wrong, below the least to work with it soon will be."""
    found = disk.judge(Path("/data"), free)
    assert (found.level, "/data" in found.what) == (level, True)


def test_each_disk_is_looked_at_once(data: Path) -> None:
    """Data, archive and logs on one disk are one finding."""
    assert len(list(disk.space(look(data)))) == 1


@pytest.mark.parametrize(
    ("limit", "used", "serves", "found"),
    [
        (CONNECTIONS + SPARE_FILES, 10, True, []),
        (1024, 10, True, [Level.NOTE]),
        (1024, 10, False, []),
        (1024, 900, False, [Level.SOON]),
        (SPARE_FILES, 10, True, [Level.WRONG]),
    ],
)
def test_open_files_are_judged_by_what_clients_need(limit: int, used: int, serves: bool, found: list[Level]) -> None:
    """Fewer clients than set is a note, a process that has nearly none left will fail, a gateway without any fails."""
    assert levels(open_files.judge("gateway-1", limit, used, serves=serves)) == found


def test_the_files_of_a_process_are_counted(data: Path) -> None:
    """Limit and use come from the kernel; one that has ended counts for nothing."""
    one = RunningPart(name="gateway-1", pid=os.getpid(), address="", log="", since=NOW.isoformat())
    gone = RunningPart(name="gateway-2", pid=2**22 + 1, address="", log="", since=NOW.isoformat())
    seen = open_files._of_process(one.pid)
    assert seen is not None
    assert 0 < seen[1] < seen[0]
    assert open_files._of_process(gone.pid) is None


@pytest.mark.parametrize(
    ("noted", "age", "jumped"),
    [(100.0, 101.0, 0.0), (100.0, 100.0 + EARLY_S, 0.0), (100.0, 4000.0, -3900.0), (4000.0, 101.0, 3899.0)],
)
def test_a_jump_is_what_the_kernel_s_seconds_do_not_explain(noted: float, age: float, jumped: float) -> None:
    """A process is a little older than its noted start; anything else is the clock that was set."""
    assert jump_s(noted, age) == jumped


async def test_a_clock_that_was_set_is_wrong(data: Path) -> None:
    """Forward: a process is younger than its noted start says. Back: a file is from the future."""
    assert levels(await clock(look(data))) == [Level.OK]
    long_ago = (datetime.now(UTC) - timedelta(days=400)).isoformat()
    part = RunningPart(name="wallet", pid=os.getpid(), address="", log="", since=long_ago)
    running = Running(pid=os.getpid(), since=long_ago, parts=[part])
    (forward,) = await clock(Place(look(data).folder, running=running))
    assert (forward.level, "forward since wallet" in forward.what) == (Level.WRONG, True)
    future = time.time() + 3600
    os.utime(data / "topology.json", (future, future))
    (back,) = await clock(look(data))
    assert (back.level, "has gone back" in back.what) == (Level.WRONG, True)


def test_a_gateway_s_port_that_is_taken_stops_the_next_start(data: Path) -> None:
    """Another part's port is a note: it gets another one."""
    assert levels(ports.ports_taken(look(data))) == [Level.OK]
    place = look(data)
    assert place.access is not None
    for url, level in ((place.access.gateway_url, Level.SOON), (place.access.wallet_url, Level.NOTE)):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", int(url.rpartition(":")[2])))
            taken.listen()
            (found,) = ports.ports_taken(place)
        assert (found.level, "ss -ltnp" in found.do) == (level, True)


# What runs, and what waits.


async def test_without_a_stack_nothing_runs_is_a_note(data: Path) -> None:
    """All servers away is a stack that was stopped."""
    (note,) = await parts.parts(look(data))
    assert (note.level, note.do) == (Level.NOTE, "./run starts it.")


def test_a_part_that_ends_again_and_again_is_wrong(tmp_path: Path) -> None:
    """Ends within the hour count, by the lines that the supervisor writes; older ones and other lines do not."""
    log = LogFile(tmp_path / "logs" / "supervisor.log")
    write = SupervisorLog(lambda _: None, log)
    for line in (*["set-1-a ended (exit status 1); starting it again in 0.1 s"] * 3, "wallet ended (x); y", "up"):
        write(line)
    with log.path.open("ab") as file:
        file.write(b'{"timestamp": "2020-01-01T00:00:00+00:00", "event": "wallet ended (killed); z"}\n')
    # Those of the older half count, too.
    assert log.set_aside(limit=1)
    write("wallet ended (x); y")
    with log.path.open("ab") as file:
        file.write(b'{"timest')
    ends = count_ends(log, datetime.now(UTC) - timedelta(hours=1))
    assert ends == {"set-1-a": 3, "wallet": 2}
    (wrong,) = parts.often(ends)
    assert (wrong.subject, "3 times" in wrong.what) == ("set-1-a", True)
    assert parts.often(Counter()) == []


def surveyed(
    *, ahead: int = 10, alarm: Alarm = Alarm.OK, day: date = TODAY, coming: Iterable[AheadPlan] = ()
) -> Survey:
    facts = DayFacts(day, states={7: State.HOT})
    return Survey("set-1", [plan_day(facts, TODAY, Rules(grace_days=8))], list(coming), ahead, alarm)


@pytest.mark.parametrize(
    ("survey", "level", "words"),
    [
        (surveyed(ahead=1, alarm=Alarm.PAGE), Level.WRONG, "1 day after today only"),
        (surveyed(ahead=-1, alarm=Alarm.PAGE), Level.WRONG, "no tables for today"),
        (surveyed(ahead=5, alarm=Alarm.ALARM), Level.SOON, "5 days"),
        (surveyed(day=TODAY - timedelta(days=11)), Level.SOON, "should have left"),
        (surveyed(day=TODAY - timedelta(days=60)), Level.WRONG, "should have left"),
        (surveyed(coming=[AheadPlan(TODAY, stands=False, occupied_by=date(2026, 10, 26))]), Level.SOON, "2026-10-26"),
    ],
)
def test_days_that_run_out_or_stay_too_long(survey: Survey, level: Level, words: str) -> None:
    """Tables ahead are judged as the alarm does, a day in the hot tables by when its names are needed."""
    (found,) = days.judge(survey, TODAY, Rules(grace_days=8))
    assert (found.level, words in found.what, found.do.startswith("./run rotate")) == (level, True, True)


@pytest.mark.parametrize("age", [0, 8, 10])
def test_a_day_that_may_still_wait_is_no_finding(age: int) -> None:
    """The background rotation has two days to take a day that can go."""
    survey = surveyed(day=TODAY - timedelta(days=age))
    assert list(days.judge(survey, TODAY, Rules(grace_days=8))) == []


def test_each_state_of_a_log_is_told() -> None:
    """Kept is well, none is a note for all servers at once, away and behind will fail, lost is wrong."""
    states = {str(state): state for state in LogState}
    found = {one.subject: one for one in backup_log.judge(states)}
    assert {name: one.level for name, one in found.items()} == {
        "none": Level.NOTE, "kept": Level.OK, "away": Level.SOON, "behind": Level.SOON, "lost": Level.WRONG,
    }  # fmt: skip
    assert "./run backup log lost --anew" in found["lost"].do
    assert "{}" not in "".join(one.what + one.do for one in found.values())


def test_a_switch_is_a_note_while_it_is_on(data: Path) -> None:
    """With its end, who answers for it and why; one that has ended is nothing. A damaged file is wrong."""

    def switch(until: datetime) -> Switch:
        return Switch(closes=Closes.CREATES, where="", owner="ann", reason="disk", since=NOW, until=until)

    (note,) = closed.judge([switch(NOW), switch(NOW + timedelta(hours=1))], NOW)
    assert (note.level, "2026-11-26 13:00 UTC, by ann: disk" in note.what) == (Level.NOTE, True)
    assert note.do.startswith("./run switch off creates")
    assert levels(closed.closed(look(data))) == [Level.OK]
    (data / "switches.json").write_text("{")
    assert Level.WRONG in levels(closed.closed(look(data)))


def test_what_is_out_of_service_is_a_note_with_the_way_back() -> None:
    """A paused SET and a drained server, each with its command."""
    url = "http://127.0.0.1:1"
    servers = (ServerSpec("set-1-a", url, drained=True), ServerSpec("set-1-b", url))
    found = list(closed.out_of_service(Topology(1, 10, (SetSpec("set-1", servers, paused=True),), url)))
    assert [(one.level, one.do) for one in found] == [
        (Level.NOTE, "./run dba resume set-1"), (Level.NOTE, "./run dba undrain set-1-a"),
    ]  # fmt: skip


def test_stuck_payouts_are_wrong_with_their_reasons() -> None:
    """Per SET, with the two commands."""
    one = StuckPayout(1, 0, "bob", 100, 9, NOW, "receiver_closed")
    (wrong,) = payouts.judge({"set-1": payouts.Stuck(2, [one, one]), "set-2": payouts.Stuck(0, [])})
    assert (wrong.level, wrong.subject) == (Level.WRONG, "set-1")
    assert "2 payouts of set-1 stuck: receiver_closed." in wrong.what
    assert "./run payout retry" in wrong.do


def test_a_user_left_half_forgotten_is_wrong_with_the_command() -> None:
    """One that was just begun is a note; after an hour somebody must finish it."""
    found = [forgetting.judge(begun, NOW) for begun in (None, NOW - timedelta(minutes=5), NOW - timedelta(hours=2))]
    assert [one.level for one in found] == [Level.OK, Level.NOTE, Level.WRONG]
    assert "./run user forget" in found[2].do


async def test_servers_that_are_away_are_left_to_the_parts(data: Path) -> None:
    """Checks that need a server say nothing of one that does not answer: it is said once."""
    place = look(data)
    assert (await days.days(place), await payouts.payouts(place), await backup_log.backup_log(place)) == ([], [], [])
    assert await forgetting.forgetting(place) == []


def snapshot(folder: Path) -> Iterator[tuple[str, int, int]]:
    for path in sorted(folder.rglob("*")):
        found = path.stat()
        yield str(path), found.st_mtime_ns, stat.S_IMODE(found.st_mode)


async def test_servers_that_refuse_or_hang_are_not_taken_for_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where nobody listens at all nothing runs; each other server is named with its reason."""
    why = {"set-1": "", "wallet": ""}

    async def problem(_: object, server: str) -> str:
        return why[server]

    class Inventory:
        def servers(self) -> list[str]:
            return [*why]

    class Folder:
        path = Path("/data")

    monkeypatch.setattr(parts, "database_problem", problem)
    refused = "Postgres at 127.0.0.1:1 does not answer: [Errno 111] Connect call failed ('127.0.0.1', 1)"
    why |= {"set-1": refused, "wallet": refused}
    assert [one.level for one in await parts._databases(Inventory(), Folder())] == [Level.NOTE]
    why |= {"wallet": "too many connections"}
    found = await parts._databases(Inventory(), Folder())
    assert [(one.level, one.subject) for one in found] == [(Level.WRONG, "set-1"), (Level.WRONG, "wallet")]
    assert "too many connections" in found[1].what
