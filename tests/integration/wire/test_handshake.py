"""Links between processes: both ends prove their key, and nobody learns one by listening or by calling."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from errors import Refused
from runtime.http import HttpServer
from tests.link_keys import GATEWAY_KEY, OPERATOR_KEY, ROOT, accepts, setnode_key
from wire.ask import ask
from wire.framing import LINK_PATH
from wire.handshake import PROOF_HEADER, Doorkeeper, LinkRefused, Prover
from wire.keys import GATEWAY, OPERATOR, SETNODE, LinkKey, accepted_keys, caller_key, root_key
from wire.link import Link
from wire.messages import Op
from wire.server import Caller, add_link, admit

WAIT_S = 10.0
SHORT_S = 0.5
"""Long enough for several attempts of a link on this machine."""


class Echo:
    """Answers every request with who asked; `asked` are the operations."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def handle(self, caller: Caller, number: int, op: int, args: list[Any]) -> None:
        self.asked.append(op)
        caller.reply(number, caller.role, caller.path)


@contextlib.asynccontextmanager
async def server_of(name: str, handler: Echo | None = None, port: int = 0) -> AsyncIterator[str]:
    """Run a server `name` with its keys; yields its URL."""
    app = web.Application()
    doorkeeper = Doorkeeper(accepted_keys(accepts(name), name, (GATEWAY, OPERATOR)))

    async def admin(request: web.Request) -> web.Response:
        admitted = admit(doorkeeper, request)
        return web.Response(text=admitted.role, headers={PROOF_HEADER: admitted.proof})

    app.router.add_get("/admin/hot", admin)
    add_link(app, handler or Echo(), doorkeeper)
    async with HttpServer(app, "127.0.0.1", port) as server:
        yield f"http://127.0.0.1:{server.port}"


@contextlib.asynccontextmanager
async def kept(link: Link) -> AsyncIterator[Link]:
    keeping = asyncio.ensure_future(link.maintain())
    try:
        yield link
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


async def up(link: Link) -> None:
    async with asyncio.timeout(WAIT_S):
        while not link.up:
            await asyncio.sleep(0.01)


async def never_up(link: Link) -> None:
    async with kept(link):
        end = asyncio.get_running_loop().time() + SHORT_S
        while asyncio.get_running_loop().time() < end:
            assert not link.up
            await asyncio.sleep(0.01)


class Thief:
    """A stranger on a server's port: answers whatever keeps a caller talking, and notes all that it is told."""

    def __init__(self, challenge: str = "Hongbao 3 " + "0" * 32 + " 2-3", relay: str = "") -> None:
        self.heard: list[str] = []
        self.frames: list[Any] = []
        self._challenge = challenge
        self._relay = relay

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get(LINK_PATH, self._link)
        async with HttpServer(app, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.port}"

    async def _link(self, request: web.Request) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        self.heard.append(given)
        if request.headers.get("Upgrade") != "websocket":
            return web.Response(status=401, headers={"WWW-Authenticate": await self._challenge_for(given)})
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("f" * 64)
        async for message in socket:
            self.frames.append(message.data)
        return socket

    async def _challenge_for(self, hello: str) -> str:
        if not self._relay:
            return self._challenge
        async with (
            aiohttp.ClientSession() as session,
            session.get(self._relay + LINK_PATH, headers={"Authorization": hello}) as answer,
        ):
            return answer.headers["WWW-Authenticate"]


async def status_of(url: str, authorization: str | bytes, *, upgrade: bool = True) -> int:
    """Return the status of one raw request for a link."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    given = authorization if isinstance(authorization, bytes) else authorization.encode()
    upgrading = (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    writer.write(b"GET /link HTTP/1.1\r\nHost: x\r\nAuthorization: " + given + b"\r\n")
    writer.write((upgrading if upgrade else b"") + b"\r\n")
    try:
        async with asyncio.timeout(WAIT_S):
            return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def test_both_ends_prove_their_key_and_the_server_knows_who_calls() -> None:
    """A caller with a key is connected; each request comes with the role and path of the key that was proven."""
    async with server_of("set-1-a") as url, kept(Link("set-1-a", url, key=GATEWAY_KEY)) as link:
        await up(link)
        assert await link.call(Op.GRAB) == ["gateway", "gateway/set-1-a"]


async def test_a_stranger_on_a_part_s_port_gets_nothing_that_opens_another_link() -> None:
    """Attack 1: what a thief of a port hears is no key, opens neither the real server nor another, and no request."""
    thief = Thief()
    async with thief.listening() as stolen:
        await never_up(Link("set-1-a", stolen, key=GATEWAY_KEY))
    assert len(thief.heard) >= 2
    assert thief.frames == []
    told = " ".join(thief.heard)
    for key in (GATEWAY_KEY, GATEWAY_KEY.below("set-1-a")):
        assert key.secret.hex() not in told
    async with server_of("set-1-a") as real, server_of("set-1-b") as other:
        for words in thief.heard:
            assert await status_of(real, words) == 401
            assert await status_of(other, words) == 401


async def test_a_thief_who_passes_the_challenge_of_another_server_on_gets_in_nowhere() -> None:
    """A proof for one server, over the challenge of another one, is refused by that one: it names whom it is for."""
    async with server_of("set-1-b") as other:
        thief = Thief(relay=other)
        async with thief.listening() as stolen:
            await never_up(Link("set-1-a", stolen, key=GATEWAY_KEY))
        answers = [one for one in thief.heard if len(one.split()) > 6]
        assert answers
        for words in answers:
            assert await status_of(other, words) == 401


async def test_an_answer_that_was_heard_opens_nothing_a_second_time() -> None:
    """The nonce of a challenge is used up by its first answer, whoever sends it."""
    async with server_of("set-1-a") as url, aiohttp.ClientSession() as session:
        prover = Prover(GATEWAY_KEY, "set-1-a", LINK_PATH)
        async with session.get(url + LINK_PATH, headers={"Authorization": prover.hello}) as first:
            answer = prover.answer(first.status, first.headers["WWW-Authenticate"])
        assert await status_of(url, answer) == 101
        assert await status_of(url, answer) == 401


async def test_a_challenge_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that comes too late is refused, though its proof is right."""
    monkeypatch.setattr("wire.handshake.CHALLENGE_S", 0.0)
    async with server_of("set-1-a") as url:
        await never_up(Link("set-1-a", url, key=GATEWAY_KEY))


async def test_challenges_that_nobody_answers_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many strangers ask, only the newest challenges are kept, and an honest caller still gets in."""
    monkeypatch.setattr("wire.handshake.MAX_CHALLENGES", 8)
    doorkeeper = Doorkeeper(accepted_keys(accepts("set-1-a"), "set-1-a", (GATEWAY, OPERATOR)))
    for _ in range(100):
        doorkeeper.challenge(Prover(GATEWAY_KEY, "set-1-a", LINK_PATH).hello)
    assert len(doorkeeper._open) == 8
    prover = Prover(GATEWAY_KEY, "set-1-a", LINK_PATH)
    admitted = doorkeeper.admit(prover.answer(401, doorkeeper.challenge(prover.hello)), LINK_PATH)
    assert admitted is not None
    prover.check(admitted.proof)


@pytest.mark.parametrize("key", [setnode_key(), root_key("another root", GATEWAY), LinkKey("gateway", b"\0" * 32)])
async def test_a_caller_without_the_right_key_is_refused(key: LinkKey) -> None:
    """A key of another role or of another installation opens no link, and the server is asked nothing."""
    echo = Echo()
    async with server_of("set-1-a", echo) as url:
        await never_up(Link("set-1-a", url, key=key))
    assert echo.asked == []


async def test_a_server_with_the_key_of_another_server_is_not_believed() -> None:
    """Whoever has the keys of one server cannot pose as another one of the same caller."""
    echo = Echo()
    async with server_of("set-1-b", echo) as url:
        await never_up(Link("set-1-a", url, key=GATEWAY_KEY))
    assert echo.asked == []


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"Link \xe9\xff",
        "Link ключ".encode(),
        b"Hongbao 2",
        b"Hongbao 1 gateway/set-1-a " + b"0" * 32,
        b"Hongbao 3 gateway/set-1-a " + b"0" * 32 + b" 9-1",
        b"Hongbao 3 gateway/set-1-a " + b"0" * 32 + b" 2-3 " + b"0" * 32 + b" 1.0 - " + b"0" * 64,
        b"Hongbao 3 gateway/set-1-a " + b"0" * 32 + b" 2-3 " + b"0" * 32 + b" " + b"0" * 64,
        b"Hongbao 2 gateway/set-1-a " + b"g" * 32,
        b"Hongbao " * 900,
    ],
)
async def test_nonsense_at_the_link_is_401(words: bytes) -> None:
    """A key that is none, not even ASCII, is refused as such; it is never an unexpected error."""
    async with server_of("set-1-a") as url:
        assert await status_of(url, words) == 401


async def test_why_a_link_stays_down_is_said() -> None:
    """A wrong key is an error that names whose it is, once; a server that is merely away, or restarting, is none."""
    async with server_of("set-1-a") as url, kept(Link("set-1-a", url, key=root_key("another", GATEWAY))) as link:
        async with asyncio.timeout(WAIT_S):
            while not link.refusal:
                await asyncio.sleep(0.01)
        assert "does not accept our key of gateway/set-1-a" in link.refusal
    async with contextlib.AsyncExitStack() as later, kept(Link("set-1-a", url, key=GATEWAY_KEY)) as link:
        await asyncio.sleep(SHORT_S)
        assert not link.up
        assert link.refusal == ""
        await later.enter_async_context(server_of("set-1-a", port=int(url.rpartition(":")[2])))
        await up(link)


async def test_an_operator_asks_without_sending_the_key() -> None:
    """A request over HTTP is answered to whoever proves the key, and its answer is believed only with a proof."""
    async with server_of("set-1-a") as url, aiohttp.ClientSession() as session:
        assert await ask(session, OPERATOR_KEY, "set-1-a", f"{url}/admin/hot") == b"operator"
        with pytest.raises(LinkRefused, match="does not accept our key"):
            await ask(session, root_key("another root", OPERATOR), "set-1-a", f"{url}/admin/hot")
        with pytest.raises(LinkRefused, match="does not accept our key"):
            await ask(session, OPERATOR_KEY, "set-1-b", f"{url}/admin/hot")


def test_a_proof_for_one_address_opens_no_other() -> None:
    """What a server hears for one of its addresses cannot be used at another one."""

    async def tell() -> None:
        doorkeeper = Doorkeeper(accepted_keys(accepts("set-1-a"), "set-1-a", (GATEWAY, OPERATOR)))
        prover = Prover(OPERATOR_KEY, "set-1-a", "/admin/hot")
        assert doorkeeper.admit(prover.answer(401, doorkeeper.challenge(prover.hello)), LINK_PATH) is None

    asyncio.run(tell())


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("", "needs one key each"),
        ("gateway/set-1-a:" + "0" * 64, "needs one key each"),
        ("gateway/set-1-a:12 operator/set-1-a:12", "is not PATH:HEX"),
        (accepts("set-1-b"), "which is none for set-1-a"),
        (accepts("set-1-a") + " " + root_key(ROOT, SETNODE).text, "which is none for set-1-a"),
        (GATEWAY_KEY.text + " " + OPERATOR_KEY.text, "which is none for set-1-a"),
    ],
)
def test_a_server_with_wrong_keys_does_not_start(setting: str, sentence: str) -> None:
    """Keys that are missing, short, of another role or for another server are refused at the start, by a sentence."""
    with pytest.raises(Refused, match=sentence) as caught:
        accepted_keys(setting, "set-1-a", (GATEWAY, OPERATOR))
    assert caught.value.code == "settings_invalid"
    assert "00000000" not in caught.value.detail


@pytest.mark.parametrize("setting", ["", "key", "gateway:12", GATEWAY_KEY.text, setnode_key("set-2").text])
def test_a_process_with_the_key_of_another_does_not_start(setting: str) -> None:
    """A setnode of set-1 refuses an empty or short key, that of a gateway and that of another SET."""
    with pytest.raises(Refused) as caught:
        caller_key(setting, "setnode/set-1")
    assert caught.value.code == "settings_invalid"
