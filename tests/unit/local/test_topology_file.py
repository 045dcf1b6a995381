"""The topology file at a start: new addresses, and nothing lost of what a move has written meanwhile."""

import threading
from pathlib import Path

from local.topology_file import write_topology
from sharding.topology import Topology, change, load
from sharding.topology.changes import hold

WAIT_S = 10.0


def start(path: Path, port: int) -> None:
    servers = {"set-1": [("set-1-a", f"http://127.0.0.1:{port}")]}
    write_topology(path, servers, memcached="127.0.0.1:1", wallet_url="http://127.0.0.1:2", slots=100)


def test_a_start_beside_a_move_overwrites_nothing(tmp_path: Path) -> None:
    """A stack that starts while a tool changes the file waits for it: the hold and the new addresses both stand."""
    path = tmp_path / "topology.json"
    start(path, 1_000)
    starting = threading.Thread(target=start, args=(path, 2_000))

    def how(old: Topology) -> Topology:
        starting.start()
        starting.join(0.3)
        assert starting.is_alive(), "it did not wait for whoever changes the file"
        return hold(old, 3)

    change(path, how)
    starting.join(WAIT_S)
    topology = load(path)
    assert topology.held == ("db_03",)
    assert topology.sets[0].servers[0].url == "http://127.0.0.1:2000"
    assert topology.version == 3


def test_a_first_start_spreads_the_databases_evenly(tmp_path: Path) -> None:
    """Two SETs hold five databases each, three hold 4, 3 and 3; a later start leaves them where they are."""
    for sets, shares in ((2, [5, 5]), (3, [3, 3, 4])):
        path = tmp_path / f"{sets}.json"
        servers = {f"set-{one}": [(f"set-{one}-a", f"http://127.0.0.1:{one}")] for one in range(1, sets + 1)}
        write_topology(path, servers, memcached="127.0.0.1:1", wallet_url="http://127.0.0.1:2", slots=100)
        first = load(path)
        assert sorted(len(first.databases_of(one.name)) for one in first.sets) == shares
        more = {**servers, "set-9": [("set-9-a", "http://127.0.0.1:9")]}
        write_topology(path, more, memcached="127.0.0.1:1", wallet_url="http://127.0.0.1:2", slots=100)
        assert [load(path).set_for_database(xx).name for xx in range(10)] == [
            first.set_for_database(xx).name for xx in range(10)
        ]
