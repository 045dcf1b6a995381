"""The ring: the same in every process, fair by weight, and a change of nodes moves only what it must."""

import os
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import InvariantBroken
from sharding.ring import Ring
from tests.sizes import sized

KEYS = [str(2511210000000000000 + n * 1_009) for n in range(20_000)]
names = st.text(min_size=1, max_size=8)


@given(st.dictionaries(names, st.integers(1, 3), min_size=1, max_size=5), st.text())
def test_failover_begins_with_the_first_and_names_all(nodes, key):
    """`nodes_for` is every node once, beginning with `node_for`."""
    ring = Ring(nodes)
    order = ring.nodes_for(key)
    assert order[0] == ring.node_for(key)
    assert sorted(order) == sorted(nodes)


@given(st.lists(names, min_size=2, max_size=5, unique=True), st.text())
def test_failover_is_where_the_key_goes_without_the_first(nodes, key):
    """The second in the order is the node that a ring without the first would give."""
    order = Ring(dict.fromkeys(nodes, 1)).nodes_for(key)
    rest = Ring({name: 1 for name in nodes if name != order[0]})
    assert rest.nodes_for(key) == order[1:]


def test_the_order_of_nodes_does_not_matter(monkeypatch):
    """Two files that list the same nodes in another order make the same ring, even where points collide."""
    monkeypatch.setattr("sharding.ring._point", lambda key: zlib.crc32(key.encode()) % 97)
    forward, backward = Ring({"a": 1, "b": 2, "c": 1}), Ring({"c": 1, "b": 2, "a": 1})
    assert all(forward.node_for(str(n)) == backward.node_for(str(n)) for n in range(500))


def test_nodes_never_change():
    """The databases of three SETs are where they always were, whatever a new uhashring does: data lies there."""
    ring = Ring({"set-0": 1, "set-1": 1, "set-2": 1})
    assert (
        "".join(ring.node_for(f"db_{xx:02d}")[-1] for xx in range(50))
        == "01212011110122101222010122202021000112222122202221"
    )


@pytest.mark.parametrize("before", [1, 2, 3, 7])
def test_a_new_node_takes_its_part_and_moves_nothing_else(before):
    """The (N + 1)th node takes about 1/(N + 1) of the keys, and no key moves among the others."""
    old = Ring({f"set-{n}": 1 for n in range(before)})
    new = Ring({f"set-{n}": 1 for n in range(before + 1)})
    moved = [(old.node_for(key), new.node_for(key)) for key in KEYS if old.node_for(key) != new.node_for(key)]
    assert {target for _, target in moved} == {f"set-{before}"}
    assert len(moved) / len(KEYS) == pytest.approx(1 / (before + 1), rel=0.15)


def test_weights_are_shares():
    """A node of weight 3 holds three times what a node of weight 1 holds."""
    ring = Ring({"light": 1, "heavy": 3})
    seen = Counter(map(ring.node_for, KEYS))
    assert seen["heavy"] / seen["light"] == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("nodes", [{}, {"a": 0}, {"a": 1, "b": -1}])
def test_a_ring_needs_nodes_of_weight(nodes):
    """No nodes, or a node without weight, is no ring."""
    with pytest.raises(InvariantBroken):
        Ring(nodes)


ASK = """
from sharding.ring import Ring
from sharding.slots import PRODUCTION, place_for
ring = Ring({"set-0": 1, "set-1": 2, "set-2": 1})
print([(ring.nodes_for(str(n)), place_for(str(n), "k", b"k" * 32, PRODUCTION))
       for n in range(300)])
"""


def test_processes_agree():
    """Processes with different PYTHONHASHSEED give the same nodes, slots and serials."""
    root = Path(__file__).resolve().parents[3]

    def answer(seed):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        return subprocess.run(
            [sys.executable, "-c", ASK], env=environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    first, second = answer("1"), answer("2")
    assert first == second
    assert "set-2" in first


@pytest.mark.statistics
def test_ids_are_even_over_servers():
    """The IDs of one day lie evenly on four servers, each within 15 % of its part."""
    ids = sized(1_000_000, 100_000)
    ring = Ring({f"server-{n}": 1 for n in range(4)})
    seen = Counter(ring.node_for(str(2511210000000000000 + n * 9_999_991)) for n in range(ids))
    assert all(seen[f"server-{n}"] == pytest.approx(ids / 4, rel=0.15) for n in range(4))
