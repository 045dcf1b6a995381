"""Live streams: who watches an envelope hears of each change after its commit, and of nothing that they may not see."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from client import calls
from errors import Refused
from gateway.connection import Connection
from gateway.identity.tokens import make_token
from gateway.limits import LIVE_ENVELOPES, LIVE_STREAMS_OF_USER, LIVE_TURN_S
from gateway.live import watcher as watcher_module
from gateway.live.watcher import Watcher
from runtime.clock import SystemClock
from tests.integration.gateway.fixtures import KEY, Client, Door, FakePeer, RealStack, client, door, some_id
from wire.messages import Op
from wire.server import Caller

__all__ = ["client", "door"]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

LUCKY = {"kind": "lucky", "total_fen": 2000, "count": 3, "greeting": "恭喜发财"}
WAIT_S = 10.0
Patch = pytest.MonkeyPatch


@pytest.fixture
async def sender(stack: RealStack) -> str:
    """A user that no other test has, with 1,000 yuan."""
    user = f"sender-{uuid.uuid4().hex[:12]}"
    await stack.deposit(user, 100_000)
    return user


class Stream:
    """Reads one stream; `next` returns the next event as (name, data, id)."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self) -> tuple[str, Any, str]:
        name, data, number = "", None, ""
        async with asyncio.timeout(WAIT_S):
            while line := (await self.answer.content.readline()).decode():
                field, _, value = line.rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    data = json.loads(value)
                elif field == "id":
                    number = value
                elif not field and name:
                    return name, data, number
        return "closed", None, ""

    async def until(self, **wanted: Any) -> dict[str, Any]:
        """Return the first frame with these values."""
        while True:
            name, frame, _ = await self.next()
            assert name == "envelope", (name, frame)
            if all(frame.get(key) == value for key, value in wanted.items()):
                return frame


@contextlib.asynccontextmanager
async def watching(client: Client, user: str, *envelopes: str, **headers: str) -> AsyncIterator[Stream]:
    sent = {"Authorization": f"Bearer {client.token(user)}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    url = f"{client.url}/v1/live?envelopes={','.join(envelopes)}"
    async with client.session.get(url, headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["X-Accel-Buffering"] == "no"
        assert answer.headers["Cache-Control"] == "no-store"
        yield Stream(answer)


async def test_who_watches_hears_of_each_claim(client: Client, sender: str) -> None:
    """First what is there, then each claim with its amount, best luck at the end: what the detail says."""
    made = await client.create(sender, **LUCKY)
    await client.open("first", made)
    async with watching(client, sender, made.envelope_id) as own, watching(client, "eve", made.share_id) as eve:
        frames = []
        for stream in (own, eve):
            name, frame, _ = await stream.next()
            assert (name, frame["status"], frame["claimed_count"], frame["count"]) == ("envelope", "open", 1, 3)
            assert [claim["user"] for claim in frame["claims"]] == ["first"]
            frames.append(frame)
        assert frames[0] == frames[1]
        await client.open("second", made)
        seen = [await stream.until(claimed_count=2) for stream in (own, eve)]
        assert [[claim["user"] for claim in frame["claims"]] for frame in seen] == [["second"]] * 2
        await client.open("third", made)
        last = [await stream.until(status="sold_out") for stream in (own, eve)]
    _, _, detail = await client.send(calls.detail(made.envelope_id), sender)
    for frame in last:
        assert frame["best_luck"] == detail["best_luck"]
        assert frame["claimed_fen"] == 2000
        assert frame["claims"] == detail["claims"][-1:]


async def test_one_stream_for_several_envelopes(client: Client, sender: str) -> None:
    """Also one that is named twice; those that may not be seen are named in an event, and nothing is told of them."""
    one, other = await client.create(sender, **LUCKY), await client.create(sender, **LUCKY)
    secret = await client.create(sender, **{**LUCKY, "count": 2}, to=["bob", "carol"])
    names = (one.share_id, other.share_id, secret.envelope_id, "A" * 33)
    async with watching(client, "eve", *names) as stream:
        events = [await stream.next() for _ in range(4)]
        assert {frame["envelope_id"] for name, frame, _ in events if name == "envelope"} == {
            one.envelope_id, other.envelope_id,
        }  # fmt: skip
        refused = {frame["envelope"]: frame["code"] for name, frame, _ in events if name == "refused"}
        assert refused == {secret.envelope_id: "not_invited", "A" * 33: "share_id_invalid"}
        await client.open("bob", secret.envelope_id)
        await client.open("bob", other)
        name, frame, _ = await stream.next()
        assert (name, frame["envelope_id"], frame["claimed_count"]) == ("envelope", other.envelope_id, 1)
    async with watching(client, sender, one.envelope_id, one.share_id) as stream:
        assert (await stream.next())[1]["envelope_id"] == one.envelope_id
        await client.open("bob", one)
        assert (await stream.until(claimed_count=1))["claims"][0]["user"] == "bob"


async def test_refusals_come_before_a_stream(client: Client, sender: str) -> None:
    """Whoever may see nothing of what they ask for hears why, as for a detail; so do bad lists and bad tokens."""
    made = await client.create(sender, **LUCKY)
    id_, missing = made.envelope_id, made.envelope_id[:-3] + "999"
    many = ",".join(str(int(id_) + number * 1000) for number in range(LIVE_ENVELOPES + 1))
    for query, status, code in (
        (f"envelopes={id_}", 403, "not_invited"), ("envelopes=", 422, "malformed_envelopes"),
        ("", 422, "malformed_envelopes"), (f"envelopes={id_},", 422, "malformed_envelopes"),
        (f"envelopes={many}", 422, "malformed_envelopes"), ("envelopes=1", 400, "malformed_envelope_id"),
        (f"envelopes={id_}&envelopes={id_}", 422, "repeated_parameter"), ("ids=1", 400, "unknown_parameter"),
        (f"envelopes={made.share_id[:-1]}", 404, "share_id_invalid"),
    ):  # fmt: skip
        told = await client.call("GET", f"/v1/live?{query}", "eve")
        assert (told[0], told[2]["code"]) == (status, code), query
    assert missing != id_
    told = await client.call("GET", f"/v1/live?envelopes={id_}", None)
    assert (told[0], told[2]["code"]) == (401, "token_missing")
    told = await client.call("HEAD", f"/v1/live?envelopes={id_}", sender)
    assert told[0] == 200
    told = await client.call("POST", f"/v1/live?envelopes={id_}", sender, {})
    assert (told[0], told[2]["code"]) == (405, "method_not_allowed")


async def test_what_was_seen_is_not_sent_again(client: Client, sender: str) -> None:
    """With the ID of the last event a client hears of what has changed since, and first of nothing."""
    made = await client.create(sender, **LUCKY)
    async with watching(client, sender, made.envelope_id) as stream:
        _, _, seen = await stream.next()
    async with watching(client, sender, made.envelope_id, Last_Event_ID=seen) as stream:
        await client.open("bob", made)
        name, frame, now = await stream.next()
        assert (name, frame["claimed_count"]) == ("envelope", 1)
    assert now != seen
    async with watching(client, sender, made.envelope_id, Last_Event_ID=seen) as stream:
        assert (await stream.next())[1:] == (frame, now)


async def test_a_crowd_is_few_frames(client: Client, sender: str) -> None:
    """A hundred claims come in a few frames, and their numbers have no gap but that of the frame's bound."""
    made = await client.create(sender, kind="equal", total_fen=10_000, count=100)
    async with watching(client, sender, made.envelope_id) as stream:
        await stream.next()
        await asyncio.gather(*(client.open(f"user-{number}", made) for number in range(100)))
        frames, seqs = 0, []
        while True:
            _, frame, _ = await stream.next()
            frames += 1
            seqs += [claim["seq"] for claim in frame["claims"]]
            if frame["status"] == "sold_out":
                break
    assert frames < 20
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == 99


async def test_a_cancel_and_an_expiry_are_told(client: Client, sender: str) -> None:
    """With what went back to the sender."""
    made = await client.create(sender, **LUCKY)
    short = await client.create(sender, **LUCKY, expires_in_s=1)
    async with watching(client, sender, made.envelope_id, short.envelope_id) as stream:
        await client.send(calls.cancel(made), sender)
        told: dict[str, Any] = {}
        while len(told) < 2:
            name, frame, _ = await stream.next()
            assert name == "envelope"
            if "refund_fen" in frame:
                told[frame["envelope_id"]] = (frame["status"], frame["refund_fen"], "closed_at" in frame)
    assert told == {made.envelope_id: ("canceled", 2000, True), short.envelope_id: ("expired", 2000, True)}


async def test_streams_of_one_user_are_bounded(client: Client, sender: str) -> None:
    """One more is refused; once one has ended there is room again."""
    made = await client.create(sender, **LUCKY)
    async with contextlib.AsyncExitStack() as streams:
        for _ in range(LIVE_STREAMS_OF_USER - 1):
            await streams.enter_async_context(watching(client, sender, made.envelope_id))
        async with watching(client, sender, made.envelope_id):
            status, headers, problem = await client.call("GET", f"/v1/live?envelopes={made.envelope_id}", sender)
            assert (status, problem["code"]) == (429, "too_many_streams")
            assert "Retry-After" in headers
        async with asyncio.timeout(WAIT_S):
            while (await client.call("HEAD", f"/v1/live?envelopes={made.envelope_id}", sender))[0] != 200:
                await asyncio.sleep(0.02)


class Scripted:
    """A server whose envelopes are watched; `tell` tells every gateway of one."""

    def __init__(self, peer: FakePeer) -> None:
        self.peer = peer
        self.version = 0
        self.asked = 0
        peer.answer = self.answer

    def answer(self, caller: Caller, number: int, op: int, args: list[Any]) -> None:
        assert op == Op.WATCH
        self.asked += 1
        caller.watched.add(args[0])
        caller.reply(number, self.frame(), str(self.version), 0)

    def frame(self) -> bytes:
        return json.dumps({"claimed_count": self.version}).encode()

    def tell(self, envelope_id: str) -> None:
        self.version += 1
        for caller in self.peer.load.callers:
            if int(envelope_id) in caller.watched:
                caller.tell_live(int(envelope_id), self.frame(), str(self.version))

    @property
    def watched(self) -> int:
        return sum(len(caller.watched) for caller in self.peer.load.callers)


@pytest.fixture
def scripts(door: Door) -> list[Scripted]:
    return [Scripted(peer) for peer in door.servers.values()]


def home(scripts: list[Scripted]) -> Scripted:
    """Return the server that was asked."""
    return next(one for one in scripts if one.watched)


async def test_a_stream_ends_with_its_token(door: Door, scripts: list[Scripted], monkeypatch: Patch) -> None:
    """It says so, and when to come back."""
    monkeypatch.setattr(watcher_module, "LIVE_AGE_S", 3600.0)
    door.token = lambda user: make_token(KEY, user, ttl_s=2, clock=SystemClock())
    async with watching(door, "alice", some_id()) as stream:
        assert (await stream.next())[0] == "envelope"
        assert (await stream.next())[:2] == ("end", {"reason": "token_expired"})
        assert (await stream.next())[0] == "closed"


async def test_a_quiet_stream_has_beats(door: Door, scripts: list[Scripted], monkeypatch: Patch) -> None:
    """So that no proxy takes it for dead."""
    monkeypatch.setattr(watcher_module, "LIVE_BEAT_S", 0.2)
    async with watching(door, "alice", some_id()) as stream:
        assert (await stream.next())[0] == "envelope"
        async with asyncio.timeout(WAIT_S):
            assert await stream.answer.content.readline() == b":\n"


async def test_who_does_not_read_gets_no_backlog(door: Door, scripts: list[Scripted]) -> None:
    """It misses frames, which others receive, and hears how things stand once it reads again."""
    envelope = some_id()
    async with watching(door, "alice", envelope) as slow, watching(door, "bob", envelope) as other:
        await slow.next()
        await other.next()
        one = next(one for one in door.gateway.bounds.all() if isinstance(one, Watcher) and one.user == "alice")
        one.pause_writing()
        for number in range(1, 11):
            home(scripts).tell(envelope)
            await other.until(claimed_count=number)
        one.resume_writing()
        assert (await slow.next())[1] == {"claimed_count": 10}
        home(scripts).tell(envelope)
        assert (await slow.next())[1] == {"claimed_count": 11}


async def test_who_never_reads_is_ended(door: Door, scripts: list[Scripted], monkeypatch: Patch) -> None:
    """A real client that does not read while 100 MB are told: nothing is kept for it, and after TAKE_S it is ended."""
    monkeypatch.setattr(watcher_module, "TAKE_S", 1.0)
    envelope = some_id()
    async with watching(door, "alice", envelope) as stream:
        await stream.next()
        stream.answer.connection.protocol.pause_reading()
        (one,) = [one for one in door.gateway.bounds.all() if isinstance(one, Watcher)]
        scripts[0].frame = scripts[1].frame = lambda: b'"' + b"x" * 100_000 + b'"'
        most = 0
        async with asyncio.timeout(WAIT_S):
            while (transport := one._transport) is not None:
                home(scripts).tell(envelope)
                most = max(most, transport.get_write_buffer_size())
                await asyncio.sleep(0.001)
        assert 0 < most < 1_000_000
    await door.until(lambda: not any(script.watched for script in scripts))


async def test_nobody_is_told_once_nobody_watches(door: Door, scripts: list[Scripted]) -> None:
    """The server hears that the last stream has ended, and is asked once for each user who begins to watch."""
    envelope = some_id()
    async with watching(door, "alice", envelope) as one, watching(door, "bob", envelope) as other:
        await one.next()
        await other.next()
        assert [script.watched for script in scripts] in ([1, 0], [0, 1])
        assert sum(script.asked for script in scripts) == 2
    await door.until(lambda: not any(script.watched for script in scripts))
    assert len(door.gateway.bounds) <= 2


async def test_another_server_is_asked_when_one_goes(door: Door, scripts: list[Scripted]) -> None:
    """What has changed meanwhile is told; what has not is not."""
    envelope = some_id()
    async with watching(door, "alice", envelope) as stream:
        assert (await stream.next())[1] == {"claimed_count": 0}
        first = home(scripts)
        other = scripts[0] if first is scripts[1] else scripts[1]
        other.version = 7
        await first.peer.stop()
        assert (await stream.next())[1] == {"claimed_count": 7}
        other.tell(envelope)
        assert (await stream.next())[1] == {"claimed_count": 8}


async def test_what_is_told_while_one_joins_is_not_lost(door: Door, scripts: list[Scripted]) -> None:
    """A frame that comes right behind the server's answer, before there is a stream, is its first event."""
    envelope = some_id()
    for script in scripts:
        answer = script.answer

        def and_tell(caller: Caller, number: int, op: int, args: list[Any], script=script, answer=answer) -> None:
            answer(caller, number, op, args)
            script.tell(envelope)

        script.peer.answer = and_tell
    async with watching(door, "alice", envelope) as stream:
        assert (await stream.next())[1]["claimed_count"] == 1


async def test_a_gateway_that_drains_ends_its_streams(door: Door, scripts: list[Scripted]) -> None:
    """It says that it leaves, and when to come back: clients come back at different times."""
    async with watching(door, "alice", some_id()) as stream:
        await stream.next()
        (one,) = [one for one in door.gateway.bounds.all() if isinstance(one, Watcher)]
        one.retire()
        assert (await stream.next())[:2] == ("end", {"reason": "leaving"})
        assert (await stream.next())[0] == "closed"
    assert one not in door.gateway.bounds.all()


async def test_who_hangs_up_while_they_join_is_forgotten(door: Door) -> None:
    """Whenever in between: nobody is locked out by their own phone's losses."""
    envelope, token = some_id(), door.token("alice")
    waiting: list[tuple[Caller, int, list[Any]]] = []

    def connections() -> int:
        return sum(isinstance(one, Connection) for one in door.gateway.bounds.all())

    def later(caller: Caller, number: int, op: int, args: list[Any]) -> None:
        waiting.append((caller, number, args))

    for peer in door.servers.values():
        peer.answer = later
    head = f"GET /v1/live?envelopes={envelope} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    before = connections()
    for _ in range(3 * LIVE_STREAMS_OF_USER):
        _, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
        writer.write(head.encode())
        await door.until(lambda: bool(waiting))
        writer.transport.abort()
        await door.until(lambda: connections() == before)
        caller, number, _ = waiting.pop()
        caller.reply(number, b"{}", "0.open", 0)
    await door.until(lambda: len(door.gateway.hub) == 0)
    scripts = [Scripted(peer) for peer in door.servers.values()]
    async with watching(door, "alice", envelope) as stream:
        assert (await stream.next())[0] == "envelope"
    assert scripts


async def test_a_refused_join_leaves_nothing(door: Door) -> None:
    """Nor do many; an error that nobody expected is no silence."""

    def refuse(caller: Caller, number: int, op: int, args: list[Any]) -> None:
        caller.fail(number, Refused("not_invited", "as it may be"))

    for peer in door.servers.values():
        peer.answer = refuse
    for _ in range(20):
        ids = ",".join(some_id() for _ in range(LIVE_ENVELOPES))
        assert (await door.call("GET", f"/v1/live?envelopes={ids}", "bob"))[0] == 403
    assert len(door.gateway.hub) == 0


async def test_a_stream_that_cannot_be_made_leaves_nothing(
    door: Door, scripts: list[Scripted], monkeypatch: Patch
) -> None:
    """Whatever fails once the envelopes are joined."""
    monkeypatch.setattr("gateway.handlers.live.Watcher", None)
    assert (await door.call("GET", f"/v1/live?envelopes={some_id()},{some_id()}", "alice"))[0] == 500
    assert len(door.gateway.hub) == 0
    await door.until(lambda: not any(script.watched for script in scripts))


async def test_a_frame_before_the_answer_of_another_server_is_not_refused(door: Door, scripts: list[Scripted]) -> None:
    """A server that takes over may tell before it has answered: it goes on telling."""
    envelope = some_id()
    async with watching(door, "alice", envelope) as stream:
        assert (await stream.next())[1] == {"claimed_count": 0}
        first = home(scripts)
        other = scripts[0] if first is scripts[1] else scripts[1]
        answer = other.answer

        def tells_first(caller: Caller, number: int, op: int, args: list[Any]) -> None:
            caller.watched.add(args[0])
            other.version = 5
            caller.tell_live(args[0], other.frame(), "5")
            answer(caller, number, op, args)

        other.peer.answer = tells_first
        await first.peer.stop()
        assert (await stream.next())[1] == {"claimed_count": 5}
        await asyncio.sleep(0.3)
        assert other.watched == 1
        other.tell(envelope)
        assert (await stream.next())[1] == {"claimed_count": 6}


async def test_a_client_that_reads_slowly_gets_each_envelope_once(door: Door, scripts: list[Scripted]) -> None:
    """What it missed of many is sent as it reads, each once and none starved; then the stream is quiet."""
    envelopes = [some_id() for _ in range(LIVE_ENVELOPES)]
    async with watching(door, "alice", *envelopes) as stream:
        for _ in envelopes:
            await stream.next()
        (one,) = [one for one in door.gateway.bounds.all() if isinstance(one, Watcher)]
        one.pause_writing()
        for script in scripts:
            for caller in script.peer.load.callers:
                for envelope_id in caller.watched:
                    frame = json.dumps({"envelope_id": str(envelope_id), "x": "x" * 6000}).encode()
                    caller.tell_live(envelope_id, frame, "9")
        await door.until(lambda: len(one.pending) == LIVE_ENVELOPES)
        one.resume_writing()
        seen = [(await stream.next())[1]["envelope_id"] for _ in envelopes]
        assert sorted(seen) == sorted(envelopes)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await stream.answer.content.readline()
        assert one.pending == {}


async def test_a_slow_client_ends_with_its_token_too(door: Door, scripts: list[Scripted], monkeypatch: Patch) -> None:
    """Paused whenever one looks: it is ended all the same."""
    monkeypatch.setattr(watcher_module, "LIVE_AGE_S", 0.5)
    async with watching(door, "alice", some_id()) as stream:
        await stream.next()
        (one,) = [one for one in door.gateway.bounds.all() if isinstance(one, Watcher)]
        one.pause_writing()
        with contextlib.suppress(aiohttp.ClientError):
            assert (await stream.next())[0] == "closed"
    await door.until(lambda: len(door.gateway.hub) == 0)


async def test_there_is_one_chain_of_turns(door: Door, scripts: list[Scripted]) -> None:
    """However many events wait: each turn leaves one behind it at most."""
    envelopes = [some_id() for _ in range(20)]
    async with watching(door, "alice", *envelopes) as stream, watching(door, "bob", *envelopes) as other:
        for _ in envelopes:
            await stream.next()
            await other.next()
        turns, turn = [0], door.gateway.hub._turn

        def counted() -> None:
            turns[0] += 1
            turn()

        door.gateway.hub._turn = counted
        began = asyncio.get_running_loop().time()
        for _ in range(20):
            for envelope in envelopes:
                home(scripts).tell(envelope)
                for script in scripts:
                    script.tell(envelope)
            await asyncio.sleep(0.01)
        took = asyncio.get_running_loop().time() - began
        assert turns[0] <= 2 + took / LIVE_TURN_S


async def test_a_stream_serves_beside_requests(door: Door, scripts: list[Scripted]) -> None:
    """What a client sends behind its request on a stream is not read as another request, and harms nobody."""
    token = door.token("alice")
    reader, writer = await asyncio.open_connection("127.0.0.1", door.gateway.port)
    head = f"GET /v1/live?envelopes={some_id()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode() + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.write(b"x" * 100_000)
    await door.until(lambda: any(isinstance(one, Watcher) for one in door.gateway.bounds.all()))
    writer.write_eof()
    told = await asyncio.wait_for(reader.read(), WAIT_S)
    assert told.count(b"HTTP/1.1") == 0
    await door.until(lambda: not any(script.watched for script in scripts))
    assert (await door.call("GET", "/healthz", None))[0] == 200
    writer.close()
