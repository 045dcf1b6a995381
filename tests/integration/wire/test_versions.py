"""Links between releases: both ends speak the highest version that both have, and nobody in between lowers it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from errors import InvariantBroken
from runtime import logs
from runtime.http import HttpServer
from tests.integration.gateway.fixtures import FakePeer
from tests.integration.wire.test_handshake import Echo, kept, never_up, server_of, up
from tests.integration.wire.test_link import until
from tests.link_keys import GATEWAY_KEY, accepts
from wire.framing import LINK_PATH
from wire.handshake import Admitted, Doorkeeper, LinkRefused, Prover
from wire.keys import GATEWAY, OPERATOR, accepted_keys
from wire.limits import SILENT_S
from wire.link import Link
from wire.messages import Op
from wire.versions import BEATS, Peer, Range, about, agreed, peer_of

SERVER = "set-1-a"


def keeper_of(spoken: Range) -> Doorkeeper:
    return Doorkeeper(accepted_keys(accepts(SERVER), SERVER, (GATEWAY, OPERATOR)), spoken=spoken)


def shaken(prover: Prover, keeper: Doorkeeper, meddle: Callable[[str], str] = lambda words: words) -> Admitted | None:
    """Shake hands, with a man in the middle who may change each word that is sent before the proofs."""
    while True:
        answer = prover.answer(401, meddle(keeper.challenge(meddle(prover.hello))))
        if answer is not None:
            return keeper.admit(answer, LINK_PATH)


@pytest.mark.parametrize(
    ("caller", "server", "version"),
    [
        (Range(2, 3), Range(2, 3), 3),
        (Range(2, 2), Range(2, 3), 2),
        (Range(2, 3), Range(2, 2), 2),
        (Range(3, 4), Range(2, 3), 3),
        (Range(2, 3), Range(3, 4), 3),
        (Range(3, 4), Range(3, 4), 4),
        (Range(2, 5), Range(2, 4), 4),
    ],
)
async def test_both_ends_speak_the_highest_version_that_both_have(caller: Range, server: Range, version: int) -> None:
    """Whichever end is the newer one; both prove their key in that version."""
    prover, keeper = Prover(GATEWAY_KEY, SERVER, LINK_PATH, spoken=caller), keeper_of(server)
    admitted = shaken(prover, keeper)
    assert admitted is not None
    assert (admitted.peer.version, prover.check(admitted.proof).version) == (version, version)


@pytest.mark.parametrize(
    ("caller", "server", "sentence"),
    [
        (Range(2, 3), Range(4, 5), "versions 4 to 5 of links, this process versions 2 to 3: upgrade this process"),
        (Range(4, 5), Range(2, 3), "speaks versions 2 to 3 of links, this process versions 4 to 5: upgrade set-1-a"),
        (Range(3, 4), Range(2, 2), "speaks version 2 of links, this process versions 3 to 4: upgrade set-1-a"),
        (Range(2, 2), Range(3, 4), "speaks versions 3 to 4 of links, this process version 2: upgrade this process"),
    ],
)  # fmt: skip
async def test_two_releases_apart_the_sentence_says_which_end_to_upgrade(
    caller: Range, server: Range, sentence: str
) -> None:
    """Nothing is agreed, nobody is admitted, and the caller says which of the two is behind."""
    with pytest.raises(LinkRefused, match=re.escape(sentence)):
        shaken(Prover(GATEWAY_KEY, SERVER, LINK_PATH, spoken=caller), keeper_of(server))


@pytest.mark.parametrize("challenge", ["", "Basic realm=x", "Hongbao", "Hongbao 3 2-3", "Hongbao 3 " + "g" * 32])
async def test_what_is_no_challenge_is_refused(challenge: str) -> None:
    """An answer that no server of ours gives ends the attempt by a sentence."""
    with pytest.raises(LinkRefused, match=r"version unknown|did not understand"):
        Prover(GATEWAY_KEY, SERVER, LINK_PATH).answer(401, challenge)


async def test_a_caller_two_releases_behind_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server, too, says which end to upgrade; nothing of it is said to the caller but the versions."""
    monkeypatch.setattr("wire.handshake._strangers", logs.Budget(1))
    monkeypatch.setattr("wire.handshake._log", logs.get("wire"))
    with capture_logs() as said:
        assert keeper_of(Range(4, 5)).challenge(f"Hongbao 3 gateway/{SERVER} {'0' * 32} 2-3") == "Hongbao 5 4-5"
    assert ["upgrade a caller" in one["error"] for one in said] == [True]


MEDDLERS = {
    "asks for version 2": lambda words: re.sub(r"^Hongbao 3 (\S+/\S+ \S+) 2-3$", r"Hongbao 2 \1", words),
    "says that it has version 2 alone": lambda words: re.sub(r"^Hongbao 3 [0-9a-f]{32} .*$", "Hongbao 2", words),
    "offers less": lambda words: re.sub(r"^(Hongbao 3 \S+/\S+ \S+) 2-3$", r"\1 2-2", words),
    "says that the server offers less": lambda words: re.sub(r"^(Hongbao 3 [0-9a-f]{32}) 2-3$", r"\1 2-2", words),
    "does both": lambda words: words.replace("Hongbao 3", "Hongbao 2").replace(" 2-3", ""),
}  # fmt: skip


@pytest.mark.parametrize("how", MEDDLERS)
async def test_nobody_in_between_lowers_the_version(how: str) -> None:
    """Both speak version 3: whatever of the greetings is changed on the way, no link comes up in version 2."""
    keeper = keeper_of(Range(2, 3))
    with pytest.raises(LinkRefused, match="something between them changes what they send"):
        shaken(Prover(GATEWAY_KEY, SERVER, LINK_PATH), keeper, MEDDLERS[how])


async def test_what_was_offered_is_part_of_the_proof() -> None:
    """Both speak 4, and both greetings are changed to offer 3 alone: neither end believes the other."""
    keeper = keeper_of(Range(2, 4))
    prover = Prover(GATEWAY_KEY, SERVER, LINK_PATH, spoken=Range(2, 4))

    def less(words: str) -> str:
        return words.replace("Hongbao 4", "Hongbao 3").replace(" 2-4", " 2-3")

    # Each challenge is good for one answer.
    for passed_on in (less, lambda words: words):
        answer = prover.answer(401, less(keeper.challenge(less(prover.hello))))
        assert answer is not None
        assert keeper.admit(passed_on(answer), LINK_PATH) is None
        prover = Prover(GATEWAY_KEY, SERVER, LINK_PATH, spoken=Range(2, 4))


@pytest.mark.parametrize("changed", ["release", "capabilities"])
async def test_what_an_end_tells_of_itself_is_part_of_the_proof(changed: str) -> None:
    """Nobody in between takes a capability away or tells another release, in either direction."""
    keeper = keeper_of(Range(2, 3))
    keeper.capabilities.add(BEATS)
    before, after = {"release": (" 0.", " 9."), "capabilities": (f" {BEATS}", " -")}[changed]
    prover = Prover(GATEWAY_KEY, SERVER, LINK_PATH, capabilities=(BEATS,))
    answer = prover.answer(401, keeper.challenge(prover.hello))
    assert answer is not None
    assert before in answer
    assert keeper.admit(answer.replace(before, after), LINK_PATH) is None
    answer = prover.answer(401, keeper.challenge(prover.hello))
    assert answer is not None
    admitted = keeper.admit(answer, LINK_PATH)
    assert admitted is not None
    with pytest.raises(LinkRefused, match="does not have the key"):
        prover.check(admitted.proof.replace(before, after))


@contextlib.asynccontextmanager
async def old_server(relay: str) -> AsyncIterator[str]:
    """Something at a server's address that passes version 2 on to `relay` and knows no other."""
    app = web.Application()

    async def passed_on(request: web.Request) -> web.StreamResponse:
        given = request.headers["Authorization"]
        if not given.startswith("Hongbao 2 "):
            return web.Response(status=401, headers={"WWW-Authenticate": "Hongbao 2"})
        async with (
            aiohttp.ClientSession() as session,
            session.get(relay + LINK_PATH, headers={"Authorization": given}) as answer,
        ):
            return web.Response(status=answer.status, headers={"WWW-Authenticate": answer.headers["WWW-Authenticate"]})

    app.router.add_get(LINK_PATH, passed_on)
    async with HttpServer(app, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.port}"


async def test_a_link_through_somebody_who_lowers_the_version_says_so() -> None:
    """The link stays down and its reason names what is between; the server is asked nothing."""
    echo = Echo()
    async with server_of(SERVER, echo) as real, old_server(real) as between:
        link = Link(SERVER, between, key=GATEWAY_KEY)
        await never_up(link)
        assert "something between them changes what they send" in link.refusal
    assert echo.asked == []


async def test_both_ends_tell_their_release_and_capabilities() -> None:
    """A link that is up knows what the server is, and the server what its caller is."""
    seen: list[Peer] = []

    class Noting(Echo):
        def handle(self, caller: object, number: int, op: int, args: list[object]) -> None:
            seen.append(caller.peer)  # type: ignore[attr-defined]
            super().handle(caller, number, op, args)  # type: ignore[arg-type]

    async with server_of(SERVER, Noting()) as url, kept(Link(SERVER, url, key=GATEWAY_KEY)) as link:
        await up(link)
        await link.call(Op.GRAB)
        assert (link.peer.version, bool(link.peer.release), link.peer.capabilities) == (3, True, frozenset())
        assert seen == [link.peer]


async def test_a_server_that_says_that_it_beats_is_given_up_also_before_its_first_beat() -> None:
    """Its capability says that it will: silence from the first moment on counts."""
    peer = FakePeer()
    peer.load.add = lambda _: None  # type: ignore[method-assign]
    await peer.start()
    try:
        async with kept(Link("peer", peer.url, key=GATEWAY_KEY)) as link:
            await until(lambda: link.up)
            assert link.peer.capabilities == {BEATS}
            begun = asyncio.get_running_loop().time()
            await until(lambda: link.losses)
            assert asyncio.get_running_loop().time() - begun < 2 * SILENT_S
    finally:
        await peer.stop()


def test_words_that_are_not_known_are_kept_and_harm_nobody() -> None:
    """What a newer end tells is read; what is no word is refused as a whole."""
    assert peer_of(3, "9.9.9 beats,what-comes-later") == Peer(3, "9.9.9", frozenset({"beats", "what-comes-later"}))
    assert peer_of(3, "1.0 -") == Peer(3, "1.0", frozenset())
    for wrong in ("", "1.0", "1.0 Beats", "1.0 a,,b", "1.0 beats extra", f"1.0 {'a' * 25}", "1 0 beats"):
        assert peer_of(3, wrong) is None
    with pytest.raises(InvariantBroken, match="no capability"):
        about(["No Word"])


def test_ranges_without_a_version_in_common_agree_on_none() -> None:
    """Also where a range is empty."""
    assert agreed(Range(2, 3), Range(4, 5)) is None
    assert agreed(Range(2, 3), Range(9, 1)) is None
    assert agreed(Range(2, 3), Range(3, 3)) == 3
