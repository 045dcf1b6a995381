"""The gateway while a database changes its SET: who waits, for how long, and where the call goes then."""

import asyncio
import time
from datetime import date, timedelta
from typing import Any

import pytest

from errors import Unavailable
from gateway.sets import calls as sets_module
from gateway.sets.target import Target
from runtime.clock import SystemClock
from sharding.ids import business_date, make_id
from sharding.slots import database_name
from sharding.topology import Move, ServerSpec, SetSpec, Topology, change, dump
from sharding.topology.changes import assign, hold
from tests.integration.gateway.fixtures import Door, door, opened, some_id
from wire.link import Link
from wire.messages import Op
from wire.server import Caller

__all__ = ["door"]


@pytest.fixture
async def two(door: Door) -> Door:
    """The door before two SETs: server a is set-1, server b set-2; the database of `some_id` is on set-1."""
    sets = tuple(
        SetSpec(name, (ServerSpec(server, door.servers[server].url),))
        for name, server in (("set-1", "a"), ("set-2", "b"))
    )
    pins = {database_name(xx): "set-1" for xx in range(10)}
    dump(Topology(2, 100, sets, door.wallet.url, pins=pins, epochs={"db_00": 1}), door.topology)
    assert door.gateway.sets is not None
    # Door.write_topology had one SET; pins keep all databases where they were.
    await door.until(lambda: door.gateway.sets.topology.version == 2)
    await door.until_ready()
    return door


async def open_one(door: Door) -> tuple[int, str]:
    status, _, answer = await door.call("POST", f"/v1/envelopes/{some_id()}/open", "bob", {})
    return status, answer.get("code", answer.get("result"))


async def test_servers_hear_the_epochs_before_the_first_call_and_after_each_change(two: Door) -> None:
    """What a server is told of its caller's topology is what the call was routed by."""
    heard: list[tuple[int, ...] | None] = []

    def note(peer: Caller, number: int, op: int, args: list) -> None:
        heard.append(peer.epochs)
        opened(peer, number, op, args)

    two.servers["a"].answer = note
    assert await open_one(two) == (200, "opened")
    change(two.topology, lambda old: assign(old, 5, "set-2"))
    await two.until(lambda: two.gateway.sets.topology.version == 3)
    assert await open_one(two) == (200, "opened")
    assert heard == [(1, *[0] * 9), (1, 0, 0, 0, 0, 1, *[0] * 4)]


async def test_calls_wait_for_a_database_that_is_held_and_go_where_it_went(two: Door) -> None:
    """No call of a held database is refused or lost: all are answered by the new SET as soon as the file says so."""
    change(two.topology, lambda old: hold(old, 0))
    await two.until(lambda: bool(two.gateway.sets.topology.held))
    began = time.monotonic()
    asking = [asyncio.ensure_future(open_one(two)) for _ in range(50)]
    await asyncio.sleep(0.2)
    assert not any(one.done() for one in asking)
    change(two.topology, lambda old: assign(old, 0, "set-2"))
    assert await asyncio.gather(*asking) == [(200, "opened")] * 50
    assert time.monotonic() - began < 5.0, "whoever waits looks often"
    assert (len(two.servers["a"].asked), len(two.servers["b"].asked)) == (0, 50)
    assert two.gateway.sets._held == 0


async def test_a_hold_has_an_end(two: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has waited long enough is told to come again; what exceeds the bound is told so at once."""
    monkeypatch.setattr(sets_module, "HOLD_S", 0.3)
    change(two.topology, lambda old: hold(old, 0))
    await two.until(lambda: bool(two.gateway.sets.topology.held))
    began = time.monotonic()
    assert await open_one(two) == (503, "busy")
    assert 0.3 <= time.monotonic() - began < 5.0
    monkeypatch.setattr(sets_module, "HELD", 0)
    monkeypatch.setattr(sets_module, "HOLD_S", 60.0)
    assert await open_one(two) == (503, "busy")
    assert not two.servers["a"].asked
    assert not two.servers["b"].asked


async def test_a_wrong_set_makes_the_gateway_read_the_file_and_ask_the_right_one(two: Door) -> None:
    """A gateway that has not heard of a move yet loses no call: the old SET refuses, the new one answers."""

    def gone(peer: Caller, number: int, op: int, args: list) -> None:
        raise Unavailable("wrong_set", "it has left")

    two.servers["a"].answer = gone
    change(two.topology, lambda old: assign(old, 0, "set-2"))
    assert await open_one(two) == (200, "opened")
    assert len(two.servers["b"].asked) == 1


async def test_a_server_that_lags_behind_is_asked_again(two: Door) -> None:
    """The file has reached the gateway before the server: the call is repeated until the server has it, too."""
    refusals = 3

    def late(peer: Caller, number: int, op: int, args: list) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise Unavailable("topology_outdated", "not yet")
        opened(peer, number, op, args)

    two.servers["a"].answer = late
    assert await open_one(two) == (200, "opened")
    assert len(two.servers["a"].asked) == 4


async def test_a_create_begun_before_the_move_is_completed_where_it_began(two: Door) -> None:
    """The new SET knows the first attempt's ID only by the wallet; the create goes there with that ID alone."""
    yesterday = make_id(business_date(SystemClock().now()), 5, 17)

    def elsewhere(peer: Caller, number: int, op: int, args: list) -> None:
        peer.reply(number, True, yesterday, None)

    change(two.topology, lambda old: assign(assign(old, 0, "set-2"), 1, "set-1"))
    await two.until(lambda: two.gateway.sets.topology.version >= 3)
    two.servers["b"].answer = elsewhere
    two.servers["a"].answer = opened
    for key in range(400):
        made = await two.create("alice", key=str(key), kind="lucky", total_fen=100, count=1)
        if two.servers["b"].asked:
            break
    assert made.envelope_id == str(yesterday)
    op, args = two.servers["a"].asked[-1]
    assert (op, args[3]) == (Op.CREATE, [yesterday])
    assert args[:3] == two.servers["b"].asked[-1][1][:3]


@pytest.mark.parametrize("then", ["wrong_set", "busy"])
async def test_an_unknown_outcome_stays_unknown_while_held(
    two: Door, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """A create whose money was taken before its database moved is never answered that nothing was done."""
    monkeypatch.setattr(sets_module, "HOLD_S", 0.1)
    asked = 0

    def paid_in(peer: Caller, number: int, op: int, args: list) -> None:
        nonlocal asked
        asked += 1
        raise Unavailable(then if asked > 1 else "wrong_set", "it has paid in", outcome_known=asked > 1)

    for peer in two.servers.values():
        peer.answer = paid_in
    body = b'{"kind":"lucky","total_fen":100,"count":1}'
    status, _, answer = await two.call("POST", "/v1/envelopes", "alice", body, Idempotency_Key="one")
    assert (status, answer["code"]) == (504, "busy")
    assert asked > 1


async def test_new_envelopes_follow_when_a_slot_gets_another_home(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link is looked up once per envelope, and anew after each change: a second server, or a move to another SET."""
    assert door.gateway.sets is not None
    sets = door.gateway.sets
    a, b = (ServerSpec(name, door.servers[name].url) for name in "ab")
    today = business_date(SystemClock().now())
    version = sets.topology.version
    looked_up, find = [], sets.routing.find

    def noted(target: Target) -> Link:
        looked_up.append(target.envelope_id)
        return find(target)

    monkeypatch.setattr(sets.routing, "find", noted)

    async def go_by(*specs: SetSpec, **changed: Any) -> None:
        nonlocal version
        version += 1
        pins = {database_name(xx): "set-1" for xx in range(10)}
        dump(Topology(version, 100, specs, door.wallet.url, pins=pins, **changed), door.topology)
        await door.until(lambda: sets.topology.version == version)
        await door.until_ready()
        looked_up.clear()
        for peer in door.servers.values():
            peer.asked.clear()

    async def asked_of(day: date, serials: range) -> tuple[int, int]:
        for serial in serials:
            path = f"/v1/envelopes/{make_id(day, serial, 7)}/open"
            assert (await door.call("POST", path, "bob", {}))[0] == 200
        return len(door.servers["a"].asked), len(door.servers["b"].asked)

    await go_by(SetSpec("set-1", (a,)), SetSpec("set-2", (b,)))
    assert await asked_of(today, range(20)) == (20, 0)
    assert await asked_of(today, range(20)) == (40, 0)
    assert len(looked_up) == 20
    await go_by(SetSpec("set-1", (a, b)))
    of_a, of_b = await asked_of(today, range(20, 60))
    assert of_a + of_b == 40
    assert of_a > 5
    assert of_b > 5
    assert len(looked_up) == 40
    yesterday = today - timedelta(days=1)
    move = Move("set-1", "set-2", today)
    await go_by(SetSpec("set-1", (a,)), SetSpec("set-2", (b,)), moves={"db_00": (move,)}, epochs={"db_00": 1})
    assert await asked_of(yesterday, range(10)) == (10, 0)
    assert await asked_of(today, range(10)) == (10, 10)
