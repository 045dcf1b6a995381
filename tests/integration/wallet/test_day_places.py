"""Places of a business day, in the wallet: counted exactly, given back once, forgotten after a day."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date, timedelta

import pytest

from errors import Refused, Unavailable
from runtime.clock import SystemClock
from sharding.ids import business_date
from tests.integration.wallet.fixtures import wallet_database
from wallet.day_places import DayPlaces, read_places, read_returned
from wire.messages import PlaceStatus

__all__ = ["wallet_database"]

DAY = 20_000
OK, MOST, OF_SENDER = PlaceStatus


@pytest.fixture
async def places(wallet_database: str) -> AsyncIterator[DayPlaces]:
    one = DayPlaces(wallet_database, SystemClock())
    yield one
    await one.close()


async def take(places: DayPlaces, *rows: tuple[str, str, int], most: int = 2, of_sender: int = 0, day: int = DAY):
    return await places.take(read_places([day, [list(row) for row in rows], most, of_sender]))


async def test_so_many_and_no_more(places: DayPlaces) -> None:
    """In order, within one call and over calls; each day, and each user, has its own."""
    assert await take(places, ("a", "s", 1), ("a", "s", 2), ("a", "s", 3), ("b", "s", 3)) == [OK, OK, MOST, OK]
    assert await take(places, ("a", "s", 3), ("a", "s", 1)) == [MOST, OK]
    assert await take(places, ("a", "s", 3), day=DAY + 1) == [OK]
    assert await take(places, ("a", "s", 3), most=3) == [OK]


async def test_so_many_of_one_sender(places: DayPlaces) -> None:
    """Beside the limit for all, or alone."""
    rows = ("a", "s", 1), ("a", "s", 2), ("a", "t", 3), ("a", "t", 4), ("a", "u", 5)
    assert await take(places, *rows, most=3, of_sender=1) == [OK, OF_SENDER, OK, OF_SENDER, OK]
    assert await take(places, ("a", "v", 6), most=3, of_sender=1) == [MOST]
    assert await take(places, ("a", "v", 6), most=0, of_sender=1) == [OK]


async def test_what_is_given_back_is_free_again(places: DayPlaces) -> None:
    """Once for each time that it was taken: another open of the same user keeps what it holds."""
    assert await take(places, ("a", "s", 1), ("a", "s", 1), ("a", "s", 2)) == [OK, OK, OK]
    await places.give_back(read_returned([DAY, [["a", 1]]]))
    assert await take(places, ("a", "s", 3)) == [MOST]
    await places.give_back(read_returned([DAY, [["a", 1], ["nobody", 9]]]))
    assert await take(places, ("a", "s", 3)) == [OK]


async def test_many_at_once_are_counted_one_by_one(wallet_database: str) -> None:
    """Two wallets count at the same time: together they give as many places as there are."""
    wallets = [DayPlaces(wallet_database, SystemClock()) for _ in range(2)]
    calls = [take(wallets[number % 2], ("a", "s", number), most=7) for number in range(1, 41)]
    found = [status for (status,) in await asyncio.gather(*calls)]
    assert (found.count(OK), found.count(MOST)) == (7, 33)
    for one in wallets:
        await one.close()


async def test_days_that_are_over_are_forgotten(places: DayPlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    """Yesterday's stay: clocks differ."""
    monkeypatch.setattr("wallet.day_places.PLACES_FORGOTTEN", 2)
    today = (business_date(SystemClock().now()) - date(1970, 1, 1)) // timedelta(days=1)
    for age in (0, 1, 2, 3):
        assert await take(places, *[("a", "s", number) for number in range(1, 4)], most=3, day=today - age) == [OK] * 3
    await places.forget()
    kept = [await take(places, ("a", "s", 9), most=3, day=today - age) for age in (0, 1, 2, 3)]
    assert kept == [[MOST], [MOST], [OK], [OK]]


@pytest.mark.parametrize(
    "args",
    [
        [],
        [DAY, [["a", "s", 1]], -1, 0],
        [DAY, [["a", "s", 1]], 2_000_000, 0],
        [DAY, [["", "s", 1]], 1, 0],
        [DAY, [["a", "s", 0]], 1, 0],
        [DAY, [["a\0", "s", 1]], 1, 0],
        [DAY, [["a", "s"]], 1, 0],
        [-1, [["a", "s", 1]], 1, 0],
        [DAY, [["a", "s", 1]] * 1_001, 1, 0],
    ],
)
def test_what_is_malformed_is_refused(args: list[object]) -> None:
    """Before Postgres sees it."""
    with pytest.raises(Refused) as refused:
        read_places(args)
    assert refused.value.code == "malformed_request"


async def test_no_place_is_taken_for_a_caller_that_has_gone(
    wallet_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for the turn longer than a caller does is refused, and nothing was taken."""
    monkeypatch.setattr("wallet.day_places.PLACES_DEADLINE_S", 0.2)
    one = DayPlaces(wallet_database, SystemClock())
    async with one._turn:
        with pytest.raises(Unavailable) as busy:
            await take(one, ("a", "s", 1), most=1)
    assert (busy.value.code, busy.value.outcome_known) == ("busy", True)
    monkeypatch.undo()
    assert await take(one, ("a", "s", 2), most=1) == [OK]
    await one.close()
