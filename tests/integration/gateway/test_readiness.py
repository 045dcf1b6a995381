"""When a gateway takes requests, and what its metrics say about the SETs behind it."""

import pytest

from gateway.sets import routing as routing_module
from runtime.metrics import REGISTRY
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from tests.integration.gateway.fixtures import Door, door, some_id

__all__ = ["door"]


def write(door: Door, version: int, *, paused: bool = False, drained: bool = False) -> None:
    """Let the second server be a SET of its own, which holds no database."""
    one = ServerSpec("a", door.servers["a"].url)
    other = ServerSpec("b", door.servers["b"].url)
    spare = ServerSpec("c", door.servers["b"].url, drained)
    sets = (SetSpec("set-1", (one,)), SetSpec("set-2", (other, spare), weight=0, paused=paused))
    dump(Topology(version, 100, sets, door.wallet.url), door.topology)


def gauge(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


async def test_a_set_that_is_away_takes_no_gateway_out_of_service(door: Door) -> None:
    """One SET has no server: the gateway stays ready, counts it, names it to operators, and serves the others."""
    write(door, 2)
    await door.until(lambda: gauge("hongbao_set_servers_alive", set="set-2") == 2)
    assert (await door.call("GET", "/readyz", None))[::2] == (200, {"status": "ready", "sets_away": 0})
    await door.servers["b"].stop()
    await door.until(lambda: gauge("hongbao_set_servers_alive", set="set-2") == 0)
    status, _, told = await door.call("GET", "/readyz", None)
    assert (status, told) == (200, {"status": "ready", "sets_away": 1})
    assert gauge("hongbao_set_servers_alive", set="set-1") == 1
    assert (await door.call("POST", f"/v1/envelopes/{some_id()}/open", "bob", {}))[0] == 200


async def test_readiness_is_worked_out_once_however_often_it_is_asked_for(door: Door) -> None:
    """Nothing is searched again for a `/readyz` unless a server came or went, or the topology is another one."""
    write(door, 2)
    await door.until(lambda: gauge("hongbao_set_servers_alive", set="set-2") == 2)
    routing = door.gateway.sets.routing
    assert (await door.call("GET", "/readyz", None))[2]["sets_away"] == 0
    found = routing.sets_away()
    for _ in range(3):
        await door.call("GET", "/readyz", None)
    assert routing.sets_away() is found
    await door.servers["b"].stop()
    await door.until(lambda: gauge("hongbao_set_servers_alive", set="set-2") == 0)
    assert (await door.call("GET", "/readyz", None))[2]["sets_away"] == 1
    assert routing.sets_away() == ("set-2",)
    door.write_topology(3, a=door.servers["a"].url)
    await door.until(lambda: door.gateway.sets.routing.topology.version == 3)
    assert (await door.call("GET", "/readyz", None))[2]["sets_away"] == 0


async def test_a_start_waits_for_every_set_and_not_for_ever(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that has never seen a SET is not ready until ALL_SETS_S have passed; then it is, with the others."""
    write(door, 2)
    await door.servers["b"].stop()
    await door.until(lambda: gauge("hongbao_set_servers_alive", set="set-2") == 0)
    routing = door.gateway.sets.routing
    routing._complete = False
    monkeypatch.setattr(routing_module, "ALL_SETS_S", 1e9)
    assert (await door.call("GET", "/readyz", None))[0] == 503
    monkeypatch.setattr(routing_module, "ALL_SETS_S", 0.0)
    assert (await door.call("GET", "/readyz", None))[0] == 200


async def test_what_is_out_of_service_is_in_the_metrics(door: Door) -> None:
    """A paused SET and a drained server are 1, all others 0; what leaves the topology leaves the metrics."""
    write(door, 2, paused=True, drained=True)
    await door.until(lambda: gauge("hongbao_set_paused", set="set-2") == 1)
    assert gauge("hongbao_set_paused", set="set-1") == 0
    assert [gauge("hongbao_server_drained", server=name) for name in "abc"] == [0, 0, 1]
    write(door, 3)
    await door.until(lambda: gauge("hongbao_set_paused", set="set-2") == 0)
    door.write_topology(4, a=door.servers["a"].url)
    await door.until(lambda: gauge("hongbao_set_paused", set="set-2") is None)
    assert gauge("hongbao_server_drained", server="c") is None
