"""The gateway and the servers behind it: who is called, what is sent again and what never is."""

import asyncio

import pytest
from aiohttp import web

from envelope.outcomes import Outcome
from errors import Unavailable
from gateway.admission.line import Line
from gateway.connection import Connection
from gateway.sets import servers as servers_module
from gateway.sets.target import Target
from runtime.metrics import REGISTRY
from sharding.ids import day_of, serial_of, slot_of
from sharding.slots import TAILS
from tests.integration.gateway.fixtures import INDEX, Door, FakePeer, door, opened, silent, some_id
from tests.link_keys import GATEWAY_KEY
from wire.link import Link
from wire.messages import Op
from wire.server import Caller

__all__ = ["door"]


async def open_one(door: Door, envelope_id: str, user: str = "bob"):
    status, _, answer = await door.call("POST", f"/v1/envelopes/{envelope_id}/open", user, {})
    return status, answer


async def test_an_envelope_keeps_its_server(door: Door) -> None:
    """All calls of one envelope go to one server; many envelopes use both."""
    ids = [some_id() for _ in range(40)]
    for _ in range(3):
        for one in ids:
            assert (await open_one(door, one))[0] == 200
    seen = {name: {args[0] for _, args in peer.asked} for name, peer in door.servers.items()}
    assert seen["a"] & seen["b"] == set()
    assert seen["a"] | seen["b"] == {int(one) for one in ids}
    assert min(len(one) for one in seen.values()) > 5


async def test_a_server_that_is_gone_is_replaced_at_once(door: Door) -> None:
    """With one server of two away every envelope is answered by the other, without an error between."""
    ids = [some_id() for _ in range(20)]
    await door.servers["a"].stop()
    for one in ids:
        assert (await open_one(door, one)) == (200, {"result": "opened", "amount_fen": 100, "seq": 0, "last": False})
    assert len(door.servers["b"].asked) == 20


async def test_a_server_that_stops_hands_over(door: Door) -> None:
    """A call that a stopping server refused goes to the next one; the client hears nothing of it."""

    def stopping(*_):
        raise Unavailable("stopping", "going")

    door.servers["a"].answer = stopping
    for _ in range(20):
        assert (await open_one(door, some_id()))[0] == 200
    # After the first refusal nobody asks it any more.
    assert len(door.servers["a"].asked) <= 1
    assert len(door.servers["b"].asked) == 20


async def test_two_servers_that_stop_are_waited_for(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked again after pauses that grow, not in a chase round the ring; then the client is told to come again."""
    monkeypatch.setattr(door.gateway.sets, "_away_s", 0.3)

    def stopping(*_):
        raise Unavailable("stopping", "going", retry_after_s=0.5)

    for peer in door.servers.values():
        peer.answer = stopping
    status, headers, problem = await door.call("POST", f"/v1/envelopes/{some_id()}/open", "bob")
    assert (status, problem["retry"]) == (503, "later")
    assert problem["code"] in ("stopping", "no_server")
    assert "Retry-After" in headers
    assert 2 <= sum(len(peer.asked) for peer in door.servers.values()) <= 8


async def test_a_set_that_restarts_is_waited_for(door: Door) -> None:
    """Both servers are away for half a second: calls of that time wait, and are answered."""
    for peer in door.servers.values():
        await peer.stop()
    await door.until(lambda: not door.gateway.sets.routing.servers.alive)
    asking = [asyncio.ensure_future(open_one(door, some_id(), f"user-{one}")) for one in range(20)]
    await door.until(lambda: door.gateway.sets._held == 20)
    for peer in door.servers.values():
        await peer.start()
    assert {status for status, _ in await asyncio.gather(*asking)} == {200}


async def test_a_set_that_stays_away_is_not_waited_for(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """After AWAY_S its calls are refused at once."""
    monkeypatch.setattr(door.gateway.sets, "_away_s", 0.2)
    for peer in door.servers.values():
        await peer.stop()
    await door.until(lambda: not door.gateway.sets.routing.servers.alive)
    await asyncio.sleep(0.2)
    calls = [(await open_one(door, some_id()))[1]["code"] for _ in range(3)]
    assert calls == ["no_server"] * 3
    assert REGISTRY.get_sample_value("hongbao_requests_held") == 0


async def test_a_wallet_that_restarts_is_waited_for(door: Door) -> None:
    """By reads, which are made again, and by creates that a setnode refused because the wallet had gone."""
    away = True

    def answer(peer: Caller, number: int, op: int, args: list[object]) -> None:
        if op == Op.CREATE and away:
            raise Unavailable("wallet_unavailable", "the wallet is not connected", retry_after_s=0.5)
        opened(peer, number, op, args)

    for peer in door.servers.values():
        peer.answer = answer
    await door.wallet.stop()
    await door.until(lambda: not door.gateway.wallet_link.up)
    body = {"kind": "equal", "total_fen": 2, "count": 2}
    asking = [
        asyncio.ensure_future(door.call("GET", "/v1/me/wallet", "bob")),
        asyncio.ensure_future(door.call("POST", "/v1/envelopes", "alice", body, **{"Idempotency-Key": "one"})),
    ]
    await door.until(lambda: door.gateway.sets._held == 1)
    await door.wallet.start()
    away = False
    assert [status for status, _, _ in await asyncio.gather(*asking)] == [200, 201]


async def test_a_read_is_repeated_only_if_the_wallet_was_lost(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after a deadline: a wallet that is slow is not asked twice."""
    monkeypatch.setattr(door.gateway.wallet_link, "_deadline_s", 0.1)
    door.wallet.answer = silent
    status, _, problem = await door.call("GET", "/v1/me/wallet", "bob")
    assert (status, problem["code"]) == (504, "outcome_unknown")
    assert len(door.wallet.asked) == 1


async def test_nobody_there(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all servers away the answer is 503, at once if nobody is waited for, and the gateway is not ready."""
    # While one is waited for, another test's server could take the port of one that has gone.
    monkeypatch.setattr(door.gateway.sets, "_away_s", 0.0)
    for peer in door.servers.values():
        await peer.stop()
    await door.until(lambda: door.gateway.readiness.missing() != [])
    status, headers, problem = await door.call("POST", f"/v1/envelopes/{some_id()}/open", "bob")
    assert (status, problem["code"], problem["retry"]) == (503, "no_server", "later")
    assert "Retry-After" in headers
    status, _, problem = await door.call("GET", "/readyz", None)
    assert (status, problem["code"]) == (503, "not_ready")
    assert "SET" in problem["detail"]


async def test_an_unknown_outcome_is_told_and_not_sent_again(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was sent and not answered is 504 "repeat it"; the gateway itself never repeats it."""
    for peer in door.servers.values():
        peer.answer = silent
    envelope_id = some_id()
    asking = asyncio.ensure_future(door.call("POST", f"/v1/envelopes/{envelope_id}/open", "bob"))
    await door.until(lambda: any(peer.asked for peer in door.servers.values()))
    (holder,) = (peer for peer in door.servers.values() if peer.asked)
    await holder.stop()
    status, headers, problem = await asking
    assert (status, problem["code"], problem["retry"]) == (504, "outcome_unknown", "repeat")
    assert "repeat" in problem["detail"]
    assert "Retry-After" in headers
    assert sum(len(peer.asked) for peer in door.servers.values()) == 1


async def test_a_deadline_is_an_unknown_outcome(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is there and does not answer in time leaves the outcome unknown, too."""
    for name in door.servers:
        monkeypatch.setattr(door.gateway.sets.routing.servers.link(name), "_deadline_s", 0.1)
    for peer in door.servers.values():
        peer.answer = silent
    status, answer = await open_one(door, some_id())
    assert (status, answer["code"]) == (504, "outcome_unknown")


async def test_each_call_is_given_up_at_its_own_deadline(door: Door) -> None:
    """Made while the link sleeps, behind one that is answered and one whose caller has gone: none is forgotten."""
    peer, deadline_s = door.servers["a"], 2.0
    peer.answer = silent
    link = Link("a", peer.url, key=GATEWAY_KEY, deadline_s=deadline_s)
    keeping = asyncio.ensure_future(link.maintain())
    loop, told = asyncio.get_running_loop(), {}

    def ask(name: str) -> asyncio.Future[list]:
        made = loop.time()
        call = link.call(Op.GRAB, int(some_id()), name, True)
        call.add_done_callback(lambda _: told.setdefault(name, loop.time() - made))
        return call

    try:
        await door.until(lambda: link.up)
        await asyncio.sleep(0.7 * deadline_s)
        ask("left").cancel()
        first = ask("first")
        await asyncio.sleep(0.4 * deadline_s)
        peer.answer = lambda peer, number, *_: peer.reply(number, 1)
        assert await ask("answered") == [1]
        peer.answer = silent
        second = ask("second")
        found = await asyncio.gather(first, second, return_exceptions=True)
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
    assert [(type(one), one.code) for one in found] == [(Unavailable, "outcome_unknown")] * 2
    # A link that slept a whole deadline after each look would tell the second 1.9 deadlines after it was asked.
    assert all(deadline_s - 0.01 <= told[name] < 1.6 * deadline_s for name in ("first", "second")), told


def complaints() -> list[dict]:
    """Return what the loop's exception handler will have heard."""
    heard: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    return heard


async def test_a_client_that_hangs_up_cancels_nothing(door: Door) -> None:
    """The call of a client that is gone runs on: its answer is taken, and the next client is served."""
    waiting: list[tuple] = []
    heard = complaints()
    for peer in door.servers.values():
        peer.answer = lambda peer, number, *_: waiting.append((peer, number))
    asking = asyncio.ensure_future(door.call("POST", f"/v1/envelopes/{some_id()}/open", "bob"))
    await door.until(lambda: waiting)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    peer, number = waiting[0]
    peer.reply(number, INDEX[Outcome.OPENED], 1, 0, True, None)
    await door.until(lambda: door.gateway.request_metrics.in_flight == 0)
    for one in door.servers.values():
        one.answer = FakePeer().answer
    assert (await open_one(door, some_id()))[0] == 200
    assert heard == []


async def test_a_client_that_hangs_up_in_its_body_is_not_waited_for(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for the rest of a body is woken when the client goes, and nothing complains."""
    monkeypatch.setattr("gateway.http.body.BODY_S", 3600.0)
    heard = complaints()
    _, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
    writer.write(
        f"POST /v1/envelopes/{some_id()}/open HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {door.token('bob')}\r\n"
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"share'.encode()
    )
    await door.until(lambda: door.gateway.request_metrics.in_flight == 1)
    writer.close()
    await writer.wait_closed()
    await door.until(lambda: door.gateway.request_metrics.in_flight == 0)
    assert heard == []
    assert all(peer.asked == [] for peer in door.servers.values())


async def test_a_client_that_hangs_up_in_the_queue_is_not_served(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose client left before its turn came begins nothing."""
    held: list[Connection] = []
    gone = asyncio.Event()

    def join(_: Line, one: Connection, *, checked: bool = False) -> bool:
        assert not checked
        one.in_line = True
        held.append(one)
        return True

    def lost(connection: Connection, error: Exception | None) -> None:
        web.RequestHandler.connection_lost(connection, error)
        gone.set()

    with monkeypatch.context() as patched:
        patched.setattr(Line, "join", join)
        patched.setattr(Connection, "connection_lost", lost)
        asking = asyncio.ensure_future(open_one(door, some_id()))
        await door.until(lambda: bool(held))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await gone.wait()
    assert held[0].left
    held[0].begin()
    assert (await open_one(door, some_id()))[0] == 200
    assert sum(len(peer.asked) for peer in door.servers.values()) == 1


async def test_busy_and_not_found_keep_their_result(door: Door) -> None:
    """Outcomes that are problems over HTTP still name the result, for a client that reads only that."""
    for outcome, status in ((Outcome.BUSY, 503), (Outcome.NOT_FOUND, 404)):
        for one in door.servers.values():
            one.answer = lambda peer, number, *_, outcome=outcome: peer.reply(
                number, INDEX[outcome], 0, -1, False, None
            )
        for verb in ("open", "grab"):
            got, headers, problem = await door.call("POST", f"/v1/envelopes/{some_id()}/{verb}", "bob")
            assert (got, problem["result"], problem["code"]) == (status, outcome.value, outcome.value)
            assert headers["Content-Type"] == "application/problem+json"
            assert ("Retry-After" in headers) == (status == 503)


async def test_the_topology_is_followed_without_a_restart(door: Door) -> None:
    """A server that joins gets envelopes, one that leaves gets no more, and no call fails on the way."""
    newcomer = FakePeer()
    await newcomer.start()
    door.write_topology(2, b=door.servers["b"].url, c=newcomer.url)
    async with asyncio.timeout(10):
        while not newcomer.asked:
            assert (await open_one(door, some_id()))[0] == 200
            await asyncio.sleep(0.02)
    before = len(door.servers["a"].asked)
    for _ in range(30):
        assert (await open_one(door, some_id()))[0] == 200
    assert len(door.servers["a"].asked) == before
    assert len(door.gateway.sets.routing.servers._leaving) == 1
    door.gateway.sets.close()
    await door.until(lambda: not door.gateway.sets.routing.servers._leaving)
    await newcomer.stop()


async def test_a_server_that_flaps_waits_for_its_envelopes(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was lost and came back is called again only after it has been up for a while."""
    monkeypatch.setattr(servers_module, "STEADY_S", 0.4)
    flapping = door.servers["a"]
    await flapping.stop()
    for _ in range(10):
        assert (await open_one(door, some_id()))[0] == 200
    loop = asyncio.get_running_loop()
    await flapping.start()
    back = loop.time()
    async with asyncio.timeout(10):
        while not flapping.asked:
            assert (await open_one(door, some_id()))[0] == 200
            await asyncio.sleep(0.01)
    assert loop.time() - back > 0.4


async def test_the_last_server_of_a_set_need_not_wait(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no server is steady, one that has just come back will do."""
    monkeypatch.setattr(servers_module, "STEADY_S", 1000.0)
    for peer in door.servers.values():
        await peer.stop()
    await door.until(lambda: door.gateway.readiness.missing() != [])
    await door.servers["b"].start()
    await door.until_ready()
    assert (await open_one(door, some_id()))[0] == 200


async def test_the_wallet_away(door: Door) -> None:
    """Without the wallet its calls are 503; opens go on, so balancers must go on sending them, and a note says it."""
    await door.wallet.stop()
    await door.until(lambda: not door.gateway.wallet_link.up)
    status, headers, problem = await door.call("GET", "/v1/me/wallet", "bob")
    assert (status, problem["code"]) == (503, "wallet_unavailable")
    assert "wallet" not in problem["detail"]
    assert "Retry-After" in headers
    assert (await open_one(door, some_id()))[0] == 200
    status, _, told = await door.call("GET", "/readyz", None)
    assert (status, told) == (200, {"status": "ready", "sets_away": 0, "wallet_away": True})


async def test_what_a_create_carries(door: Door) -> None:
    """A create repeated carries the same key, fingerprint and place; another body another fingerprint."""

    def places(candidates: list[int]) -> list[tuple[int, int]]:
        return [(slot_of(one), serial_of(one) % TAILS) for one in candidates]  # the second may be another by now

    body = {"kind": "lucky", "total_fen": 100, "count": 2}
    for total_fen in (100, 100, 200):
        await door.create("alice", key="one", **{**body, "total_fen": total_fen})
    calls = [args for peer in door.servers.values() for _, args in peer.asked]
    assert len(calls) == 3
    first, second = ([*args[:3], places(args[3]), args[4]] for args in calls[:2])
    assert first == second
    sender, create_key, fingerprint, candidates, terms = calls[2]
    assert (sender, create_key, places(candidates)) == ("alice", first[1], first[3])
    assert fingerprint != calls[0][2]
    assert len(set(candidates)) == 4
    assert len({one % 1000 for one in candidates}) == 1
    assert (terms["total_fen"], terms["split"]) == (200, "double_mean")


async def test_candidates_begin_anew_behind_the_last_tail(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five digits end: behind the last tail of a second comes its first, in the same slot and second."""
    monkeypatch.setattr("gateway.handlers.envelopes.place_for", lambda *_: (7, TAILS - 2))
    await door.create("alice", kind="lucky", total_fen=100, count=2)
    ((_, args),) = [asked for peer in door.servers.values() for asked in peer.asked]
    assert [serial_of(one) % TAILS for one in args[3]] == [TAILS - 2, TAILS - 1, 0, 1]
    assert len({serial_of(one) // TAILS for one in args[3]}) == 1
    assert len({(day_of(one), slot_of(one)) for one in args[3]}) == 1


@pytest.mark.parametrize("code", ["wallet_unavailable", "peer_down", "database_unavailable"])
async def test_a_server_that_reports_another_part_as_away_is_itself_well(door: Door, code: str) -> None:
    """Creates are refused while a server's wallet is away; opens of the same server go on, and nobody is excluded."""

    def without_wallet(peer, number: int, op: int, args: list) -> None:
        if op == Op.CREATE:
            raise Unavailable(code, "a part is away")
        opened(peer, number, op, args)

    for peer in door.servers.values():
        peer.answer = without_wallet
    routing = door.gateway.sets.routing
    before = routing.generation
    body = {"kind": "lucky", "total_fen": 100, "count": 2}
    for number in range(20):
        status, _, problem = await door.call("POST", "/v1/envelopes", "bob", body, Idempotency_Key=f"k{number}")
        assert (status, problem["code"], problem["retry"]) == (503, code, "later")
        assert (await open_one(door, some_id()))[0] == 200
    assert routing.servers.alive == {"a", "b"}
    assert routing.generation == before


async def test_a_second_try_that_meets_a_move_is_held_like_a_first(door: Door) -> None:
    """One server stops and the next does not have the new topology yet: the client waits and is served."""
    refusals = 0

    def moving(peer, number: int, op: int, args: list) -> None:
        nonlocal refusals
        refusals += 1
        if refusals <= 2:
            raise Unavailable("being_moved", "on its way")
        opened(peer, number, op, args)

    def stopping(*_):
        raise Unavailable("stopping", "going")

    door.servers["a"].answer = stopping
    door.servers["b"].answer = moving
    routing = door.gateway.sets.routing
    one = next(one for one in (some_id() for _ in range(100)) if routing.find(Target(int(one))).name == "a")
    assert (await open_one(door, one))[0] == 200
    assert refusals == 3


async def test_a_server_found_lost_by_a_call_is_published_at_once(door: Door) -> None:
    """The gauge of servers that may be called does not wait for the next look at all links."""
    servers = door.gateway.sets.routing.servers
    assert REGISTRY.get_sample_value("hongbao_servers_alive") == 2
    servers.mark_lost("a")
    assert servers.alive == {"b"}
    assert REGISTRY.get_sample_value("hongbao_servers_alive") == 1
