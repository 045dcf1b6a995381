"""What a program does with the client: each method, and each thing that may stand in the way."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from client import (
    Conflict,
    Hongbao,
    InsufficientFunds,
    InvalidRequest,
    NotAllowed,
    NotFound,
    NotSignedIn,
    User,
)
from double import Double
from tests.integration.gateway.fixtures import RealStack


class InMemory:
    """A double, as a running stack."""

    def __init__(self, double: Double) -> None:
        self.gateway_url, self.token = double.url, double.token
        self._double = double

    async def deposit(self, user: str, fen: int) -> None:
        self._double.deposit(user, fen)


class People:
    """Users of a running system whose names no other test has."""

    def __init__(self, hongbao: Hongbao, running: RealStack | InMemory) -> None:
        self.hongbao = hongbao
        self._running = running
        self._suffix = uuid.uuid4().hex[:8]

    def name(self, who: str) -> str:
        return f"{who}-{self._suffix}"

    def __call__(self, who: str) -> User:
        return self.hongbao.user(self._running.token(self.name(who)))

    async def rich(self, who: str, fen: int = 100_000) -> User:
        await self._running.deposit(self.name(who), fen)
        return self(who)


@pytest.fixture(params=["real", "double"])
async def people(request: pytest.FixtureRequest, stack: RealStack) -> AsyncIterator[People]:
    """On all real parts, and on the double, which promises to be no different."""
    async with contextlib.AsyncExitStack() as exits:
        running: RealStack | InMemory = stack
        if request.param == "double":
            running = InMemory(await exits.enter_async_context(Double()))
        yield People(await exits.enter_async_context(Hongbao(running.gateway_url)), running)


async def test_one_sends_and_others_open(people: People) -> None:
    """The sum comes out of one wallet and goes into the others'; who comes too late hears it as a result."""
    alice = await people.rich("alice")
    envelope = await alice.create(total_fen=888, count=2, greeting="恭喜发财")
    assert (envelope.sender, envelope.status, envelope.greeting) == (people.name("alice"), "open", "恭喜发财")
    assert await alice.balance_fen() == 100_000 - 888
    results = [await people(who).open(envelope) for who in ("bob", "carol", "dave")]
    assert [one.result for one in results] == ["opened", "opened", "sold_out"]
    assert [one.opened for one in results] == [True, True, False]
    assert sum(one.amount_fen or 0 for one in results) == 888
    assert (await people("bob").open(envelope)).result == "already_opened"
    now = await alice.detail(envelope)
    assert (now.final, now.claimed_count, now.claimed_fen) == (True, 2, 888)
    assert now.best_luck is not None
    assert await alice.detail(envelope, seen=now) is now


async def test_by_share_id_and_by_name(people: People) -> None:
    """A share ID is all that a stranger needs; without it only those who are named may open."""
    alice = await people.rich("alice")
    envelope = await alice.create(total_fen=200, count=2)
    assert envelope.share_id is not None
    assert (await people("bob").open(envelope.share_id)).opened
    assert (await people("carol").open(envelope.envelope_id)).result == "not_invited"
    named = await alice.create(total_fen=100, count=1, kind="equal", to=[people.name("dave")])
    assert (await people("dave").grab(named.envelope_id)).result == "openable"
    assert [one.envelope_id async for one in people("dave").waiting()] == [named.envelope_id]
    assert (await people("dave").open(named.envelope_id)).amount_fen == 100
    assert [one.envelope_id async for one in people("dave").waiting()] == []


async def test_a_password_and_a_start(people: People) -> None:
    """What is missing is a result with what to do about it."""
    alice = await people.rich("alice")
    secret = await alice.create(total_fen=100, count=1, password="芝麻开门")
    assert (await people("bob").grab(secret)).password_required
    assert (await people("bob").open(secret, password="no")).tries_left is not None
    assert (await people("bob").open(secret, password="芝麻开门")).opened
    starts = datetime.now(UTC) + timedelta(hours=1)
    later = await alice.create(total_fen=100, count=1, opens_at=starts)
    result = await people("bob").open(later)
    assert result.result == "not_started"
    assert result.opens_at is not None
    assert abs(result.opens_at - starts) < timedelta(seconds=1)
    with pytest.raises(ValueError, match="time zone"):
        await alice.create(total_fen=100, count=1, opens_at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(ValueError, match="not 'tomorrow'"):
        await alice.create(total_fen=100, count=1, opens_at="tomorrow")  # type: ignore[arg-type]


async def test_pages_are_iterators(people: People) -> None:
    """More claims, envelopes and lines than a page has: all come, in order, once."""
    alice = await people.rich("alice")
    many = await alice.create(total_fen=13_000, count=130)
    await asyncio.gather(*(people(f"guest-{number}").open(many) for number in range(130)))
    claims = [one async for one in alice.claims(many)]
    assert [one.seq for one in claims] == list(range(130))
    assert sum(one.amount_fen for one in claims) == 13_000
    made = [await alice.create(total_fen=1, count=1) for _ in range(60)]
    sent = [one async for one in alice.sent()]
    assert [one.envelope_id for one in sent] == [one.envelope_id for one in (*reversed(made), many)]
    lines = [one async for one in alice.entries()]
    assert [one.amount_fen for one in lines] == [-1] * 60 + [-13_000, 100_000]
    (first,) = [one async for one in people("guest-0").received()]
    assert (first.sender, first.status, first.count) == (people.name("alice"), "sold_out", 130)
    assert (await alice.totals(datetime.now(UTC).year)).sent_fen == 13_060


async def test_a_stream_tells_of_everything_and_ends(people: People) -> None:
    """It begins with how things are, tells of each open once, and ends when nobody can open any more."""
    alice = await people.rich("alice")
    one, other = await alice.create(total_fen=300, count=3), await alice.create(total_fen=100, count=1)
    await people("early").open(one)
    changes, begun = [], asyncio.Event()

    async def watch() -> None:
        # One of them is named twice: it is watched once.
        async for change in alice.watch(one, other, one.envelope_id):
            changes.append(change)
            begun.set()

    async with asyncio.timeout(20):
        watching = asyncio.ensure_future(watch())
        await begun.wait()
        for who in ("bob", "carol"):
            await people(who).open(one)
            await asyncio.sleep(0.3)
        await alice.cancel(other)
        await watching
    of_one = [change for change in changes if change.envelope_id == one.envelope_id]
    assert [claim.user for change in of_one for claim in change.claims] == [
        people.name(who) for who in ("early", "bob", "carol")
    ]
    assert of_one[-1].status == "sold_out"
    assert of_one[-1].best_luck is not None
    last = next(change for change in reversed(changes) if change.envelope_id == other.envelope_id)
    assert last.status == "canceled"


async def test_a_stream_tells_what_comes_back(people: People) -> None:
    """Of an envelope that expires while it is watched: the last change has what goes back to its sender."""
    alice = await people.rich("alice")
    envelope = await alice.create(total_fen=300, count=3, expires_in_s=1)
    async with asyncio.timeout(20):
        changes = [change async for change in alice.watch(envelope)]
    assert (changes[-1].status, changes[-1].refund_fen) == ("expired", 300)


async def test_what_is_refused_is_an_exception_of_its_own(people: People) -> None:
    """By what a program does about it."""
    alice = await people.rich("alice", 100)
    with pytest.raises(InsufficientFunds, match="insufficient_funds"):
        await alice.create(total_fen=101, count=1)
    with pytest.raises(InvalidRequest) as wrong:
        await alice.create(total_fen=2, count=3)
    assert (wrong.value.code, wrong.value.status) == ("count_exceeds_total", 422)
    assert "at most 2 shares" in wrong.value.detail
    assert wrong.value.request_id
    envelope = await alice.create(total_fen=100, count=1)
    with pytest.raises(NotAllowed, match="not_the_sender"):
        await people("bob").cancel(envelope)
    with pytest.raises(NotFound, match="share_id_invalid"):
        await people("bob").open(envelope.share_id[:-1] + ("B" if envelope.share_id.endswith("A") else "A"))
    with pytest.raises(NotSignedIn, match="token_invalid"):
        await people.hongbao.user("no token").balance_fen()
    with pytest.raises(NotAllowed, match="not_invited"):
        async for _ in people("bob").watch(envelope.envelope_id):
            pass
    await people("bob").open(envelope)
    with pytest.raises(Conflict, match="already_final"):
        await alice.cancel(envelope)


async def test_one_key_one_envelope(people: People) -> None:
    """A program that crashed and repeats its call gets what it made before."""
    alice = await people.rich("alice")
    first, again = [await alice.create(total_fen=10, count=1, idempotency_key="a-key-of-mine") for _ in range(2)]
    assert first == again
    with pytest.raises(InvalidRequest, match="idempotency_key_reused"):
        await alice.create(total_fen=11, count=1, idempotency_key="a-key-of-mine")


async def test_whoever_leaves_a_stream_ends_it(people: People) -> None:
    """A `break` closes the connection: a user may have eight streams, and nine are watched one after the other."""
    alice = await people.rich("alice")
    envelope = await alice.create(total_fen=100, count=1)
    for _ in range(9):
        async with contextlib.aclosing(alice.watch(envelope)) as changes:
            async for change in changes:
                assert change.status == "open"
                break


@pytest.mark.parametrize(("user", "fen"), [("alice", 0), ("alice", -5), ("alice", 10**30), ("a b", 5), ("", 5)])
async def test_the_double_takes_no_deposit_that_a_wallet_refuses(user: str, fen: int) -> None:
    """Neither a sum nor a name: a test with it would show what no installation does."""
    async with Double() as double:
        with pytest.raises(ValueError, match=r"deposit is 1 to|no user ID"):
            double.deposit(user, fen)


async def test_a_create_is_repeated_long_after_its_start() -> None:
    """A program that was away hears what came of its create, as long as the envelope lives: it must not pay twice."""
    async with Double() as double:
        double.deposit("alice", 1_000)
        starts = datetime.now(UTC) + timedelta(minutes=1)

        async def send() -> str:
            made = await double.user("alice").create(total_fen=100, count=1, opens_at=starts, idempotency_key="mine")
            return made.envelope_id

        first = await send()
        for away in (timedelta(minutes=12), timedelta(days=3)):
            await double.advance(away)
            assert await send() == first
        assert [one.kind for one in [one async for one in double.user("alice").entries()]] == [
            "refund",
            "fund",
            "deposit",
        ]
