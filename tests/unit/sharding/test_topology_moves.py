"""Who holds a database when: by the date in the ID, without holes or overlaps, and never without a higher epoch."""

import json
import threading
from datetime import date, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import Refused
from sharding.ids import make_id
from sharding.slots import database_name
from sharding.topology import Move, Topology, TopologyFile, change, check_topology, dump, load
from sharding.topology.changes import assign, backdate_move, hold, move_from, release, successor, to_add, to_remove
from tests.unit.sharding.test_topology import make, make_set

replace = msgspec.structs.replace
DAY = date(2026, 11, 24)
BEFORE = DAY - timedelta(days=1)


def of(day, slot=70):
    return make_id(day, 1, slot)


def home(topology: Topology, xx: int = 7) -> str:
    return topology.set_for_database(xx).name


def elsewhere(topology: Topology, xx: int = 7) -> str:
    return next(one.name for one in topology.sets if one.name != home(topology, xx))


def moved(topology: Topology | None = None, day: date = DAY) -> Topology:
    topology = topology or make()
    return move_from(topology, 7, elsewhere(topology), day)


def test_the_date_of_an_envelope_decides_its_set():
    """Up to the eve it is on the old SET, from the date on on the new one; other databases do not move."""
    old = make()
    new = moved(old)
    check_topology(new)
    assert new.set_for(of(BEFORE)).name == home(old)
    assert new.set_for(of(DAY)).name == new.set_for(of(DAY + timedelta(days=400))).name == elsewhere(old)
    assert new.set_for_database(7, BEFORE).name == home(old)
    assert new.set_for_database(7, DAY).name == new.set_for_database(7).name == elsewhere(old)
    assert all(old.set_for(of(DAY, slot)) == new.set_for(of(DAY, slot)) for slot in range(1_000) if slot // 10 != 7)
    assert (new.version, new.epoch_of[7], sum(new.epoch_of)) == (old.version + 1, 1, 1)


def test_what_a_set_holds_on_a_day_and_at_all():
    """On a day each database has one SET; a SET that holds it on some day must serve, audit and keep it."""
    old = make()
    new, at, to = moved(old), home(old), elsewhere(old)
    assert 7 in new.databases_of(at, BEFORE)
    assert 7 not in new.databases_of(at, DAY)
    assert 7 in new.databases_of(to, DAY)
    assert 7 not in new.databases_of(to, BEFORE)
    assert 7 in new.databases_of(at)
    assert 7 in new.databases_of(to)
    for day in (BEFORE, DAY):
        held = [xx for one in new.sets for xx in new.databases_of(one.name, day)]
        assert sorted(held) == list(range(100))


@given(st.integers(0, 999), st.dates(date(2026, 1, 1), date(2027, 12, 31)), st.integers(0, 10**10 - 1))
def test_ranges_say_what_the_look_up_says(slot, day, serial):
    """Every ID is in the ranges of exactly the SET that the look-up gives, for ever moved and never moved databases."""
    envelope_id = make_id(day, serial, slot)
    holders = [
        one.name for one in TWICE.sets if any(envelope_id in span for span in TWICE.ids_of(one.name).get(slot, ()))
    ]
    assert holders == [TWICE.set_for(envelope_id).name]


def test_there_and_back():
    """A database that has moved away and back is on its first SET twice, with the other in between."""
    away = moved()
    back = move_from(away, 7, home(make()), DAY + timedelta(days=10))
    check_topology(back)
    days = (BEFORE, DAY, DAY + timedelta(days=9), DAY + timedelta(days=10))
    first, other = home(make()), elsewhere(make())
    assert [back.set_for(of(day)).name for day in days] == [first, other, other, first]
    assert len(back.ids_of(first)[70]) == 2
    assert back.epoch_of[7] == 2


TWICE = move_from(moved(), 7, home(make()), DAY + timedelta(days=10))


def test_a_finished_move_leaves_a_pin():
    """Once the old days are there too the database is simply on its new SET, whatever the ring says later."""
    old = make()
    new = backdate_move(moved(old), 7, None)
    check_topology(new)
    assert new.moves == {}
    assert new.set_for(of(BEFORE)).name == elsewhere(old)
    assert new.epoch_of[7] == 2
    nearer = backdate_move(moved(old), 7, BEFORE)
    assert nearer.set_for(of(BEFORE)).name == elsewhere(old)
    assert nearer.set_for(of(BEFORE - timedelta(days=1))).name == home(old)


def test_a_held_database_is_nobodys():
    """Held and released is two epochs; settled on another SET it is there for all dates. Others are not touched."""
    old = make()
    held = hold(old, 7)
    check_topology(held)
    assert held.is_held(of(DAY))
    assert not held.is_held(of(DAY, 80))
    assert hold(held, 7) is held
    assert release(held, 7).epoch_of[7] == 2
    assert release(old, 7) is old
    new = assign(held, 7, elsewhere(old))
    assert not new.is_held(of(DAY))
    assert new.set_for(of(date(2020, 1, 1))).name == elsewhere(old)
    assert assign(new, 7, elsewhere(old)) is new
    assert sum(new.epoch_of) == 2


def with_moves(*listed, base="set-0", database="db_07"):
    document = json.loads(msgspec.json.encode(make(2, pins={database: base})))
    document["moves"] = {database: [dict(zip(("from", "to", "valid_from"), one, strict=True)) for one in listed]}
    return document


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (with_moves(), "moves.db_07: must be 1 to 8 moves"),
        (with_moves(("set-1", "set-0", "2026-11-24")), "leaves a hole: before 2026-11-24 it is on set-0"),
        (with_moves(("set-0", "set-9", "2026-11-24")), "no SET 'set-9'"),
        (with_moves(("set-9", "set-1", "2026-11-24")), "no SET 'set-9'"),
        (with_moves(("set-0", "set-0", "2026-11-24")), "is on set-0 already"),
        (
            with_moves(("set-0", "set-1", "2026-11-24"), ("set-0", "set-1", "2026-11-25")),
            "[1].from: leaves a",
        ),
        (
            with_moves(("set-0", "set-1", "2026-11-24"), ("set-1", "set-0", "2026-11-24")),
            "2026-11-24 belongs to two SETs, set-1 and set-0",
        ),
        (
            with_moves(("set-0", "set-1", "2026-11-24"), ("set-1", "set-0", "2026-11-23")),
            "moves stand in order of date",
        ),
        (with_moves(("set-0", "set-1", "1999-11-24")), "must be a year"),
        (with_moves(("set-0", "set-1", "2026-13-24")), "valid_from"),
        ({**with_moves(), "moves": {"db_100": []}}, "moves.db_100"),
        ({**with_moves(), "moves": {}, "epochs": {"db_7": 1}}, "epochs.db_7"),
        ({**with_moves(), "moves": {}, "epochs": {"db_07": -1}}, "epochs.db_07"),
        ({**with_moves(), "moves": {}, "held": ["db_99x"]}, "held.db_99x"),
    ],
)
def test_mistakes_are_refused_with_their_field(tmp_path, document, says):
    """Holes, overlaps, wrong order and unknown names are refused, and the sentence names the field."""
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(document))
    with pytest.raises(Refused) as caught:
        load(file)
    assert caught.value.code == "topology_invalid"
    assert says in caught.value.detail


def test_a_ring_that_changes_under_a_move_is_a_hole():
    """A move names where it starts: a SET that joins cannot silently take the old days of an unpinned database."""
    old = make(2)
    taken = next(xx for xx in range(100) if make(3).set_for_database(xx).name == "set-2")
    name = database_name(taken)
    at = old.set_for_database(taken).name
    other = "set-1" if at == "set-0" else "set-0"
    unpinned = replace(old, moves={name: (Move(source=at, to=other, valid_from=DAY),)})
    check_topology(unpinned)
    with pytest.raises(Refused, match="leaves a hole"):
        check_topology(replace(unpinned, sets=make(3).sets))
    pinned = move_from(old, taken, other, DAY)
    check_topology(replace(pinned, sets=make(3).sets))


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (lambda old: replace(moved(old), epochs={}), "epochs.db_07: must rise"),
        (lambda old: replace(hold(old, 7), epochs={}), "epochs.db_07: must rise"),
        (lambda old: replace(old, version=2, sets=make(4).sets), "pin it to"),
        (lambda old: replace(old, version=9, epochs={"db_08": 2}), "epochs.db_08: must not sink"),
    ],
    ids=["a move", "a hold", "a SET that joins", "an epoch that sinks"],
)
def test_no_owner_changes_without_an_epoch(tmp_path, new, says):
    """A file that gives a database another SET without a higher epoch never replaces the one in use."""
    path = tmp_path / "topology.json"
    old = make(epochs={"db_08": 3})
    dump(old, path)
    file = TopologyFile(path)
    dump(new(old), path)
    with pytest.raises(Refused) as caught:
        file.reload()
    assert says in caught.value.detail
    assert file.current == old


def test_changes_of_two_tools_follow_each_other(tmp_path):
    """Two tools that change the file at once each find what the other has written: no change is lost."""
    path = tmp_path / "topology.json"
    dump(make(), path)
    begun = threading.Barrier(5)

    def work(xx):
        begun.wait()
        change(path, lambda old: move_from(old, xx, elsewhere(old, xx), DAY))

    threads = [threading.Thread(target=work, args=(xx,)) for xx in range(5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(load(path).moves) == [f"db_{xx:02d}" for xx in range(5)]
    assert load(path).version == 6


def test_a_change_that_fails_writes_nothing(tmp_path):
    """What `how` refuses, or a topology that must not follow, leaves the file as it was."""
    path = tmp_path / "topology.json"
    dump(make(), path)
    before = path.read_bytes()
    with pytest.raises(Refused):
        change(path, lambda old: replace(moved(old), version=old.version))
    with pytest.raises(Refused):
        change(path, lambda old: move_from(old, 7, "set-9", DAY))
    assert change(path, lambda old: old) == load(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("before", [1, 2, 4])
def test_a_set_that_joins_takes_its_part(before):
    """To add a SET to N moves about 1/(N + 1) of the databases, all to it, whether it stands in the file or not."""
    plan = to_add(make(before), "set-new")
    assert {to for _, to in plan.values()} == {"set-new"}
    assert abs(len(plan) - 100 / (before + 1)) < 16
    joined = replace(make(before), sets=(*make(before).sets, make_set(9, weight=0)))
    assert to_add(joined, "set-9").keys() == to_add(make(before), "set-9").keys()


def test_what_a_plan_says_is_done_once():
    """After its moves the plan is empty, and so is one to remove a SET that has become empty."""
    topology = replace(make(), sets=(*make().sets, make_set(9, weight=0)))
    for xx, (_, to) in to_add(topology, "set-9").items():
        topology = assign(topology, xx, to)
    assert to_add(topology, "set-9") == {}
    plan = to_remove(topology, "set-0")
    assert plan.keys() == set(topology.databases_of("set-0"))
    assert "set-0" not in {to for _, to in plan.values()}
    for xx, (_, to) in plan.items():
        topology = assign(topology, xx, to)
    assert to_remove(topology, "set-0") == {}


@pytest.mark.parametrize(
    ("sets", "name", "code"), [(3, "set-9", "unknown_set"), (1, "set-0", "last_set")], ids=["unknown", "the last"]
)
def test_what_cannot_be_removed(sets, name, code):
    """A SET that is not there, or the only one, cannot be removed."""
    with pytest.raises(Refused) as caught:
        to_remove(make(sets), name)
    assert caught.value.code == code


def test_an_old_file_still_loads(tmp_path):
    """A file of before, with pins and without moves or epochs, means what it meant."""
    document = json.loads(msgspec.json.encode(make(pins={"db_07": "set-2"})))
    for field in ("moves", "epochs", "held"):
        del document[field]
    path = tmp_path / "topology.json"
    path.write_text(json.dumps(document))
    assert load(path) == make(pins={"db_07": "set-2"})
    assert set(load(path).epoch_of) == {0}
    assert successor(load(path)).epochs == {}
