"""The topology: one answer per ID, a sentence for every mistake, and a file that never replaces good by bad."""

import json
import os
import re
import stat
from datetime import date

import msgspec
import pytest
from structlog.testing import capture_logs

from errors import Refused, Unavailable
from runtime import logs
from sharding.ids import make_id, slot_of
from sharding.slots import database_of
from sharding.topology import (
    ServerSpec,
    SetSpec,
    Topology,
    TopologyFile,
    check_topology,
    dump,
    load,
    moves,
    unknown_fields,
)
from sharding.topology import change as change_file
from sharding.topology.changes import successor
from wire.keys import WALLET

replace = msgspec.structs.replace


def make(sets=3, *, slots=1_000, version=1, **fields):
    """Make a valid topology of so many SETs with three servers each."""
    return Topology(
        version=version,
        slots=slots,
        wallet_url="http://127.0.0.1:7000",
        sets=tuple(make_set(number) for number in range(sets)),
        **fields,
    )


def make_set(number, **fields):
    servers = tuple(ServerSpec(f"s{number}-{n}", f"http://10.0.{number}.{n}:8000") for n in range(3))
    return SetSpec(f"set-{number}", servers, "127.0.0.1:11211", **fields)


def ids(count):
    return [make_id(date(2025, 11, 21), n * 7_919, n % 1_000) for n in range(count)]


def test_every_database_has_one_set():
    """The databases of the SETs together are all databases, each once."""
    topology = make()
    held = [xx for one in topology.sets for xx in topology.databases_of(one.name)]
    assert sorted(held) == list(range(100))
    assert all(topology.set_for_database(xx).name == "set-1" for xx in topology.databases_of("set-1"))


def test_an_id_leads_to_a_server_of_the_set_of_its_database():
    """The server of an ID belongs to the SET that holds the ID's database."""
    topology = make()
    for envelope_id in ids(2_000):
        home = topology.set_for_database(database_of(slot_of(envelope_id)))
        assert topology.set_for(envelope_id) == home
        assert topology.server_for(envelope_id) in home.servers


def test_pins_override_the_ring():
    """A pinned database is where the pin says; the others stay where the ring puts them."""
    free = make()
    away = next(xx for xx in range(100) if free.set_for_database(xx).name != "set-2")
    pinned = replace(free, version=2, pins={f"db_{away:02d}": "set-2"})
    assert moves(free, pinned) == {away: (free.set_for_database(away).name, "set-2")}


@pytest.mark.parametrize("before", [1, 2, 3, 4])
def test_a_new_set_takes_its_part_from_the_others(before):
    """Adding a SET to N moves about 1/(N + 1) of the databases, all to the new one."""
    moved = moves(make(before), make(before + 1))
    assert {new for _, new in moved.values()} == {f"set-{before}"}
    assert abs(len(moved) - 100 / (before + 1)) < 16


def test_a_set_of_weight_0_holds_what_is_pinned():
    """A SET can stand ready without taking anything, and be filled database by database."""
    ready = replace(make(2), sets=(make_set(0), make_set(1, weight=0)), pins={"db_07": "set-1"})
    check_topology(ready)
    assert ready.databases_of("set-1") == [7]


def test_a_changed_url_moves_nothing():
    """A server that comes back at another address keeps its envelopes."""
    old = make()
    sets = tuple(replace(one, servers=tuple(replace(s, url="http://x:1") for s in one.servers)) for one in old.sets)
    new = replace(old, sets=sets)
    assert all(old.server_for(one).name == new.server_for(one).name for one in ids(500))


def test_only_envelopes_of_a_dead_server_move():
    """When a server dies its envelopes go to living servers of the SET, and no other envelope moves."""
    topology = make()
    alive = {name for one in topology.sets for name in one.server_names} - {"s1-0"}
    for envelope_id in ids(3_000):
        first, now = topology.server_for(envelope_id), topology.server_for(envelope_id, alive)
        assert now.name in alive
        assert now in topology.set_for(envelope_id).servers
        assert now == first or first.name == "s1-0"


def test_no_living_server_is_unavailable():
    """When all servers of the SET are dead the answer is Unavailable, not a server of another SET."""
    topology = make()
    envelope_id = ids(1)[0]
    others = {name for one in topology.sets if one != topology.set_for(envelope_id) for name in one.server_names}
    with pytest.raises(Unavailable) as caught:
        topology.server_for(envelope_id, others)
    assert caught.value.code == "no_server"


GOOD = json.loads(msgspec.json.encode(make(2)))


def change(path, value):
    """Return the JSON of a good topology with one value changed."""
    document = json.loads(json.dumps(GOOD))
    *way, last = path
    at = document
    for step in way:
        at = at[step]
    at[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("version",), 0, "version"),
        (("version",), "1", "version"),
        (("slots",), 15, "slots"),
        (("slots",), 2_000, "slots"),
        (("time_zone",), "Mars/Olympus", "time_zone"),
        (("time_zone",), "../etc/passwd", "time_zone"),
        (("time_zone",), "Asia", "time_zone"),
        (("wallet_url",), "127.0.0.1:7000", "wallet_url"),
        (("sets",), [], "sets"),
        (("sets", 1, "name"), "set-0", "'set-0' is there twice"),
        (("sets", 1, "name"), "", "no name"),
        (("sets", 1, "servers"), [], "sets[1].servers"),
        (("sets", 1, "servers", 2, "name"), "s0-0", "'s0-0' is there twice"),
        (("sets", 1, "servers", 2, "name"), WALLET, "'wallet' is the name of a process of its own"),
        (("sets", 1, "servers", 2, "url"), "ftp://host/", "sets[1].servers[2].url"),
        (("sets", 1, "servers", 2, "url"), "http://", "sets[1].servers[2].url"),
        (("sets", 1, "servers", 2, "url"), "http://host:99999", "sets[1].servers[2].url"),
        (("sets", 1, "servers", 2, "url"), "http://[::1", "sets[1].servers[2].url"),
        (("sets", 1, "memcached"), "localhost", "sets[1].memcached"),
        (("sets", 1, "memcached"), "localhost:x", "sets[1].memcached"),
        (("sets", 1, "weight"), -1, "sets[1].weight"),
        (("sets", 1, "weight"), 101, "sets[1].weight"),
        (("pins",), {"db_100": "set-0"}, "pins.db_100"),
        (("pins",), {"db_7": "set-0"}, "pins.db_7"),
        (("pins",), {"db_07": "set-9"}, "'set-9'"),
    ],
)
def test_mistakes_are_refused_with_their_field(tmp_path, path, value, says):
    """Every mistake in the file is refused, and the sentence names the field."""
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(change(path, value)))
    with pytest.raises(Refused) as caught:
        load(file)
    assert caught.value.code == "topology_invalid"
    assert says in caught.value.detail


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (("sets", 1, "wieght"), "sets[1].wieght"),
        (("sets", 0, "servers", 1, "zone"), "sets[0].servers[1].zone"),
        (("later",), "later"),
    ],
)
def test_fields_of_a_later_release_are_ignored_named_and_never_lost(tmp_path, monkeypatch, path, named):
    """Processes read the file and say what they ignore; who would write over it is refused, and writes nothing."""
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(change(path, {"any": [1]})))
    before = file.read_bytes()
    assert load(file) == make(2)
    monkeypatch.setattr("sharding.topology.file._log", logs.get("sharding"))
    with capture_logs() as said:
        assert TopologyFile(file).current == make(2)
    assert [one["fields"] for one in said] == [[named]]
    assert unknown_fields(file) == [named]
    with pytest.raises(Refused, match=re.escape(named)) as caught:
        change_file(file, lambda old: replace(old, version=old.version + 1))
    assert caught.value.code == "topology_of_later_release"
    assert file.read_bytes() == before
    assert change_file(file, lambda old: old) == make(2)


def test_a_process_that_runs_takes_a_file_of_a_later_release(tmp_path):
    """A newer version with fields that it does not know is followed."""
    file = tmp_path / "topology.json"
    dump(make(2), file)
    held = TopologyFile(file)
    later = change(("version",), 7) | {"later": True}
    file.write_text(json.dumps(later))
    assert held.reload()
    assert held.current.version == 7


def test_a_hole_is_refused():
    """A database that no SET holds is refused, by name."""
    sets = (make_set(0, weight=0), make_set(1, weight=0))
    pins = {f"db_{xx:02d}": "set-0" for xx in range(10) if xx != 4}
    with pytest.raises(Refused, match="db_04"):
        check_topology(replace(make(2, slots=100), sets=sets, pins=pins))
    check_topology(replace(make(2, slots=100), sets=sets, pins=pins | {"db_04": "set-1"}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00", '{"version": 1}', "[" * 100_000])
def test_what_is_no_topology_is_refused(tmp_path, text):
    """Empty, cut off or foreign files are refused."""
    file = tmp_path / "topology.json"
    file.write_text(text)
    with pytest.raises(Refused) as caught:
        load(file)
    assert caught.value.code == "topology_invalid"


def test_dump_and_load(tmp_path):
    """What is written is read back equal, and no temporary file stays."""
    topology = make(pins={"db_07": "set-2"})
    dump(topology, tmp_path / "topology.json")
    assert load(tmp_path / "topology.json") == topology
    assert [file.name for file in tmp_path.iterdir()] == ["topology.json"]


def test_only_its_owner_reads_the_file(tmp_path):
    """It tells where each part listens: 0600, also in the place of a file that was open, and whatever the umask."""
    file = tmp_path / "topology.json"
    before = os.umask(0)
    try:
        dump(make(), file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o644)
        dump(make(version=2), file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files for others")
def test_the_file_stays_its_owner_s(tmp_path):
    """An operator who changes it as root leaves it to the account whose processes read it."""
    file = tmp_path / "topology.json"
    dump(make(), file)
    os.chown(file, 65_534, 65_534)
    dump(make(version=2), file)
    assert (file.stat().st_uid, file.stat().st_gid) == (65_534, 65_534)


def test_dump_refuses_what_load_would(tmp_path):
    """An invalid topology never reaches the disk, and the old file stays."""
    dump(make(), tmp_path / "topology.json")
    with pytest.raises(Refused):
        dump(make(version=0), tmp_path / "topology.json")
    assert load(tmp_path / "topology.json") == make()


def test_a_failed_dump_leaves_the_old_file(tmp_path, monkeypatch):
    """A disk that fails in the middle leaves the old file and no rubbish."""

    def fail(_):
        raise OSError("disk full")

    path = tmp_path / "topology.json"
    dump(make(), path)
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        dump(make(version=2), path)
    assert load(path) == make()
    assert list(tmp_path.iterdir()) == [path]


def test_reload_takes_a_newer_file(tmp_path):
    """A higher version is taken once; an unchanged file, or other white space, is no change."""
    path = tmp_path / "topology.json"
    dump(make(2), path)
    file = TopologyFile(path)
    assert not file.reload()
    newer = successor(make(2), sets=make(3).sets)
    dump(newer, path)
    assert file.reload()
    assert file.current == newer
    assert not file.reload()
    path.write_bytes(path.read_bytes() + b"\n")
    assert not file.reload()


@pytest.mark.parametrize(
    "other",
    [
        make(3, version=4),
        make(3, version=5),
        make(2, version=6, slots=100),
        make(2, version=6, time_zone="Europe/Berlin"),
        make(3, version=6),
        None,
    ],
    ids=["lower version", "same version", "other slots", "other zone", "homes without epochs", "rubbish"],
)
def test_reload_keeps_the_old_when_the_new_is_bad(tmp_path, other):
    """Lower or same version, other slots or zone, homes without epochs, or rubbish: the old one stays."""
    path = tmp_path / "topology.json"
    dump(make(2, version=5), path)
    file = TopologyFile(path)
    if other is None:
        path.write_text("rubbish")
    else:
        dump(other, path)
    for _ in range(2):
        with pytest.raises(Refused):
            file.reload()
        assert file.current == make(2, version=5)


def test_reload_outlives_a_missing_file(tmp_path):
    """While the file is away the old topology stays, and a newer file is taken when it comes."""
    path = tmp_path / "topology.json"
    dump(make(2), path)
    file = TopologyFile(path)
    path.unlink()
    with pytest.raises(Refused):
        file.reload()
    assert file.current == make(2)
    dump(make(2, version=2), path)
    assert file.reload()
