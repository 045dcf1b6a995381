"""Daily limits: exact over servers that decide at the same time, and given back by those who win nothing."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from errors import HongbaoError, Refused, Unavailable
from sharding.ids import business_date
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


def TOWN() -> dict[str, int]:  # noqa: N802 - read by shared_town
    """Five wins a day, two of one sender."""
    return {"wins_per_day": 5, "opens_from_sender_per_day": 2}


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


async def outcome(town: Town, envelope_id: int, user: str, **more: object) -> str:
    """Return the result of an open, or the code of its refusal."""
    try:
        return str((await town.open(envelope_id, user, **more))["result"])
    except Unavailable as refusal:
        return refusal.code if refusal.outcome_known else "unknown"


async def places(town: Town, user: str) -> int:
    return int(await town.scalar("SELECT count(*) FROM day_place WHERE user_id = $1", user, wallet=True))


async def test_a_user_wins_so_many_a_day(town: Town) -> None:
    """At two servers and all at once: as many as the limit, not one more; the others hear when to come again."""
    envelopes = [await town.create(100, 3, sender=f"sender-{number}") for number in range(20)]
    found = Counter(await asyncio.gather(*(outcome(town, one, "bob") for one in envelopes)))
    assert found == {"opened": 5, "daily_wins_reached": 15}
    assert {town.owner(one).settings.server for one in envelopes} == {"set-1-a", "set-1-b"}
    assert await town.scalar("SELECT count(*) FROM claim WHERE user_id = 'bob'") == 5
    with pytest.raises(Unavailable) as refused:
        await town.open(await town.create(100, 3), "bob")
    now = datetime.now(UTC)
    midnight = business_date(now + timedelta(seconds=refused.value.retry_after_s + 60))
    assert midnight == business_date(now) + timedelta(days=1)
    # What was won stays won, and others win.
    won = [one for one in envelopes if (await town.grab(one, "bob"))["result"] == "already_opened"]
    assert len(won) == 5
    assert {await outcome(town, one, "bob") for one in won} == {"already_opened"}
    assert await outcome(town, envelopes[0], "ann") == "opened"


async def test_and_so_many_of_one_sender(town: Town) -> None:
    """Other senders' envelopes are still open to them."""
    of_one = [await town.create(100, 3, sender="rich") for _ in range(6)]
    found = Counter(await asyncio.gather(*(outcome(town, one, "eve") for one in of_one)))
    assert found == {"opened": 2, "daily_opens_of_sender_reached": 4}
    assert await outcome(town, await town.create(100, 3, sender="poor"), "eve") == "opened"


async def test_who_wins_nothing_gets_the_place_back(town: Town) -> None:
    """Too late, a wrong password, cancelled: none of them costs a place of the day."""
    sold = await town.create(100, 1, sender="quick")
    assert await outcome(town, sold, "first") == "opened"
    secret = await town.create(100, 2, sender="sly", password="right")
    users = [f"late-{number}" for number in range(8)]
    for user in users:
        assert await outcome(town, sold, user) == "sold_out"
        assert await outcome(town, secret, user, password="wrong") == "wrong_password"
    async with asyncio.timeout(20):
        while any([await places(town, user) for user in users]):
            await asyncio.sleep(0.02)
    assert await outcome(town, secret, users[0], password="right") == "opened"
    assert await places(town, users[0]) == 1


async def test_taps_at_the_same_time_hold_one_place(town: Town) -> None:
    """A user taps ten times, some with a wrong password: one share, one place, and it stays theirs."""
    secret = await town.create(100, 2, sender="sly-2", password="right")
    taps = [outcome(town, secret, "hasty", password=word) for word in ("wrong", "right", "right", "wrong", "right")]
    found = Counter(await asyncio.gather(*taps))
    assert found["opened"] == 1
    await asyncio.sleep(0.2)
    assert await places(town, "hasty") == 1
    # Every place that is held is one of a share that was won.
    assert await town.scalar("SELECT count(*) FROM claim WHERE user_id = 'hasty'") == 1


async def test_more_shares_than_places_never_exist(town: Town) -> None:
    """A crowd that fights for few shares of many envelopes: each user's wins are places, and at most as many."""
    envelopes = [await town.create(100, 4, sender=f"crowd-{number}") for number in range(12)]
    users = [f"fan-{number}" for number in range(16)]
    asked = [outcome(town, one, user) for one in envelopes for user in users]
    found = Counter(await asyncio.gather(*asked))
    assert found["opened"] == sum(found.values()) - found["sold_out"] - found["daily_wins_reached"]
    async with asyncio.timeout(20):
        while not all(node.daily.idle and not node.daily._returned for node in town.nodes):
            await asyncio.sleep(0.02)
    for user in users:
        won = await town.scalar("SELECT count(*) FROM claim WHERE user_id = $1", user)
        assert won == await places(town, user) <= 5


@pytest.mark.parametrize(
    "error",
    [
        Refused("malformed_request", "a wallet of an older version"),
        Unavailable("topology_outdated", "it has moved"),
        Unavailable("outcome_unknown", "no answer", outcome_known=False),
    ],
)
async def test_a_wallet_that_takes_no_place_back_harms_nobody_else(
    town: Town, monkeypatch: pytest.MonkeyPatch, error: HongbaoError
) -> None:
    """These users lose a place of the day; the server goes on, and asks no second time."""
    user = f"unlucky-{error.code}"
    sold = await town.create(100, 1, sender=f"quick-{error.code}")
    secret = await town.create(100, 2, sender=f"sly-{error.code}", password="right")
    node, asked = town.owner(secret), []

    async def give_back(*args: object) -> None:
        asked.append(args)
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(node.daily._wallet, "give_back", give_back)
        assert await outcome(town, secret, user, password="wrong") == "wrong_password"
        async with asyncio.timeout(20):
            while not asked or node.daily._returned:
                await asyncio.sleep(0.02)
    assert len(asked) == 1
    assert await places(town, user) == 1
    assert await outcome(town, secret, user, password="right") == "opened"
    assert await outcome(town, sold, f"other-{error.code}") == "opened"


@pytest.mark.parametrize("code", ["database_unavailable", "busy", "wallet_unavailable"])
async def test_places_are_given_back_once_the_wallet_can_take_them(
    town: Town, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """A refusal that ends by itself costs nobody a place of the day."""
    user = f"patient-{code}"
    secret = await town.create(100, 2, sender=f"far-{code}", password="right")
    node, asked = town.owner(secret), []
    real = node.daily._wallet.give_back

    async def give_back(*args: Any) -> None:
        asked.append(args)
        if len(asked) == 1:
            raise Unavailable(code, "it is away")
        await real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(node.daily._wallet, "give_back", give_back)
        assert await outcome(town, secret, user, password="wrong") == "wrong_password"
        async with asyncio.timeout(20):
            while len(asked) < 2 or node.daily._returned:
                await asyncio.sleep(0.02)
    assert await places(town, user) == 0


async def test_while_the_wallet_is_away_nobody_wins(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open that could not be counted is not begun; what needs no place is answered."""
    one = await town.create(100, 2, sender="away")
    assert await outcome(town, one, "before") == "opened"
    with monkeypatch.context() as patched:
        for node in town.nodes:
            patched.setattr(node.wallet_link, "_open", False)
        assert await outcome(town, one, "meanwhile") == "wallet_unavailable"
        assert await outcome(town, one, "before") == "already_opened"
    assert await outcome(town, one, "meanwhile") == "opened"
