"""What a SET's server serves, and that it refuses rather than guesses when its caller knows more."""

from datetime import date, timedelta

import pytest
from msgspec.structs import replace

from errors import Unavailable
from setnode.ownership import Ownership
from sharding.ids import make_id
from sharding.topology import ServerSpec, TopologyFile, dump
from sharding.topology.changes import assign, drained, hold, move_from, paused, successor
from tests.unit.sharding.test_topology import make
from wire.messages import Op
from wire.server import Caller

DAY = date(2026, 11, 24)
NAME = "set-0"


def peer_of(topology=None):
    caller = Caller("gateway")
    if topology is not None:
        caller.on_notice(Op.EPOCHS, [list(topology.epoch_of)])
    return caller


class Place:
    def __init__(self, path):
        self.path = path
        self.topology = make(2)
        self.xx = self.topology.databases_of(NAME)[0]
        dump(self.topology, path)
        self.changed = 0
        self.ownership = Ownership(TopologyFile(path), NAME, self.note)

    def note(self):
        self.changed += 1

    def id_of(self, day=DAY, xx=None):
        return make_id(day, 1, (self.xx if xx is None else xx) * 10)

    def refusal(self, caller=None, envelope_id=None):
        """Return the code with which an envelope is refused; None where it is served."""
        try:
            self.ownership.admit(caller or peer_of(), envelope_id or self.id_of())
        except Unavailable as refused:
            return refused.code if refused.outcome_known else f"{refused.code}, outcome unknown"
        return None


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "topology.json")


def test_the_date_decides_what_is_served(place):
    """Before the date of a move its envelopes are served, from the date on they are in the wrong SET."""
    assert place.refusal() is None
    dump(move_from(place.topology, place.xx, "set-1", DAY), place.path)
    assert place.ownership.reload()
    assert place.changed == 1
    assert place.refusal(envelope_id=place.id_of(DAY - timedelta(days=1))) is None
    assert place.refusal() == "wrong_set"
    assert place.ownership.holds(place.id_of(DAY - timedelta(days=1)))
    assert not place.ownership.holds(place.id_of())
    other = place.topology.databases_of("set-1")[0]
    assert place.refusal(envelope_id=place.id_of(xx=other)) == "wrong_set"


def test_a_held_database_is_ours_and_not_served(place):
    """While a database is between two SETs nobody serves it; its neighbours go on."""
    dump(hold(place.topology, place.xx), place.path)
    place.ownership.reload()
    assert place.refusal() == "being_moved"
    assert place.ownership.holds(place.id_of())
    assert place.refusal(envelope_id=place.id_of(xx=place.topology.databases_of(NAME)[1])) is None


async def test_who_hears_of_a_newer_epoch_reads_the_file_first(place):
    """A caller that goes by a newer topology is answered by it at once, not after the next look."""
    newer = assign(place.topology, place.xx, "set-1")
    dump(newer, place.path)
    assert place.refusal(peer_of(newer)) == "wrong_set"
    assert place.ownership.topology == newer


async def test_who_cannot_read_the_newer_one_refuses_and_does_not_guess(place):
    """With an older file it refuses the databases whose owner may have changed since, and serves all others."""
    away = assign(place.topology, place.xx, "set-1")
    back = assign(away, place.xx, NAME)
    caller = peer_of(back)
    assert place.refusal(caller) == "topology_outdated"
    neighbour = place.id_of(xx=place.topology.databases_of(NAME)[1])
    assert place.refusal(caller, neighbour) is None
    place.path.write_text("rubbish")
    assert place.refusal(peer_of(back)) == "topology_outdated"


async def test_an_older_caller_is_served_where_the_owner_is_the_same(place):
    """The newer of the two knows: an envelope that is here is served, one that has left is refused."""
    old = place.topology
    dump(assign(old, place.xx, "set-1"), place.path)
    place.ownership.reload()
    assert place.refusal(peer_of(old)) == "wrong_set"
    assert place.refusal(peer_of(old), place.id_of(xx=old.databases_of(NAME)[1])) is None


async def test_changes_that_move_nothing_are_no_reason_to_read(place):
    """Another version with the same owners has the same epochs: nobody is refused and no file is read for it."""
    caller = peer_of(successor(place.topology, wallet_url="http://elsewhere:1"))
    place.path.unlink()
    assert place.refusal(caller) is None


async def test_a_caller_with_other_slots_is_no_oracle(place):
    """Epochs of databases that we do not have are not looked at; such an envelope is in the wrong SET."""
    caller = Caller("gateway")
    caller.on_notice(Op.EPOCHS, [[5]])
    assert place.refusal(caller, place.id_of(xx=max(place.topology.databases_of(NAME)))) is None
    assert place.refusal(caller, make_id(DAY, 1, 999)) in ("wrong_set", None)


def test_it_owns_what_is_first_on_the_ring(tmp_path):
    """A server that is alone has all that its SET holds, one of two has its part, and one that is drained nothing."""
    path = tmp_path / "topology.json"
    topology = make(2)
    home = next(one for one in topology.sets if one.name == NAME)
    first, second = home.servers[0], ServerSpec("second", "http://127.0.0.1:9")
    xx = topology.databases_of(NAME)[0]
    ids = [make_id(DAY, serial, xx * 10) for serial in range(64)]
    elsewhere = make_id(DAY, 1, topology.databases_of("set-1")[0] * 10)

    def owned(servers, server):
        sets = tuple(replace(one, servers=servers) if one is home else one for one in topology.sets)
        dump(replace(topology, version=topology.version + 1, sets=sets), path)
        ownership = Ownership(TopologyFile(path), NAME, server=server)
        assert not ownership.owns(elsewhere)
        return {envelope_id for envelope_id in ids if ownership.owns(envelope_id)}

    assert owned((first,), first.name) == set(ids)
    assert owned((first,), second.name) == set()
    parts = owned((first, second), first.name), owned((first, second), second.name)
    assert parts[0] | parts[1] == set(ids)
    assert parts[0]
    assert parts[1]
    assert not parts[0] & parts[1]
    drained = replace(second, drained=True)
    assert owned((first, drained), first.name) == set(ids)
    assert owned((first, drained), second.name) == set()


def test_it_owns_until_the_date_of_a_move(place):
    """Alone or not: from the date of a move on the envelopes are another's."""
    servers = next(one for one in place.topology.sets if one.name == NAME).servers
    for alone in (True, False):
        sets = [replace(one, servers=servers[:1]) if one.name == NAME and alone else one for one in place.topology.sets]
        topology = replace(place.topology, sets=tuple(sets))
        dump(topology, place.path)
        names = [server.name for server in servers]
        all_holdings = [Ownership(TopologyFile(place.path), NAME, server=name) for name in names]

        def owners(day, all_holdings=all_holdings):
            return sum(ownership.owns(place.id_of(day)) for ownership in all_holdings)

        assert owners(DAY) == owners(DAY - timedelta(days=1)) == 1
        dump(move_from(topology, place.xx, "set-1", DAY), place.path)
        assert all(ownership.reload() for ownership in all_holdings)
        assert owners(DAY) == 0
        assert owners(DAY - timedelta(days=1)) == 1


@pytest.mark.parametrize(
    ("change", "distrusts"),
    [
        (lambda old: successor(old, wallet_url="http://elsewhere:1"), False),
        (lambda old: paused(old, "set-1", on=True), False),
        (lambda old: paused(old, NAME, on=True), False),
        (lambda old: drained(old, "s1-0", away=True), False),
        (lambda old: drained(old, "s0-0", away=True), True),
        (lambda old: assign(old, old.databases_of(NAME)[0], "set-1"), True),
        (lambda old: assign(old, old.databases_of("set-1")[0], NAME), True),
    ],
)
def test_only_a_topology_that_concerns_this_set_makes_its_logs_doubtful(place, change, distrusts):
    """Another SET's pause, drain or address changes nothing that is in memory here; a move or a drain of ours does."""
    dump(change(place.topology), place.path)
    assert place.ownership.reload()
    assert place.changed == int(distrusts)
