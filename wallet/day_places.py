"""Places of a business day: how many envelopes a user may win a share of, and how many of one sender's.

A setnode asks before a user wins. The count is exact over all setnodes, SETs and gateways, because this is where all of
them meet. A place is taken before the share is won and given back if none was: a crash between the two can cost the
user a place of that day, and never gives them one too many.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Annotated, Any

import msgspec

from errors import Unavailable
from runtime.clock import Clock
from runtime.postgres import Session
from sharding.ids import business_date
from wallet.limits import (
    BUSY_RETRY_S,
    MAX_PLACES,
    MAX_WAITING_PLACES,
    PLACES_AT_ONCE,
    PLACES_DEADLINE_S,
    PLACES_FORGOTTEN,
    PLACES_KEPT_DAYS,
)
from wallet.requests import EnvelopeId, User, read, refuse_nul

Limit = Annotated[int, msgspec.Meta(ge=0, le=MAX_PLACES)]
Day = Annotated[int, msgspec.Meta(ge=0, le=200_000)]
"""Days since 1970."""


class Place(msgspec.Struct, array_like=True, frozen=True):
    """An envelope of which a user may win a share."""

    user: User
    sender: User
    envelope_id: EnvelopeId


class Returned(msgspec.Struct, array_like=True, frozen=True):
    """A place that is given back."""

    user: User
    envelope_id: EnvelopeId


class TakePlaces(msgspec.Struct, array_like=True, frozen=True):
    """PLACES, as `wire.messages.Op` says."""

    day: Day
    places: Annotated[list[Place], msgspec.Meta(max_length=PLACES_AT_ONCE)]
    most: Limit
    most_of_sender: Limit


class GiveBack(msgspec.Struct, array_like=True, frozen=True):
    """GIVE_BACK."""

    day: Day
    places: Annotated[list[Returned], msgspec.Meta(max_length=PLACES_AT_ONCE)]


def read_places(args: list[Any]) -> TakePlaces:
    """Convert the arguments of PLACES; raises Refused `malformed_request`."""
    asked = read(TakePlaces, args)
    refuse_nul([text for one in asked.places for text in (one.user, one.sender)])
    return asked


def read_returned(args: list[Any]) -> GiveBack:
    """Convert the arguments of GIVE_BACK; raises Refused `malformed_request`."""
    asked = read(GiveBack, args)
    refuse_nul([one.user for one in asked.places])
    return asked


class DayPlaces:
    """Takes and gives back places, one statement at a time on a connection of its own.

    Raises Unavailable `busy` or `database_unavailable`; if its outcome is unknown, places
    may have been taken or given back.
    """

    def __init__(self, dsn: str, clock: Clock) -> None:
        self._session = Session(dsn, {"lock_timeout": f"{int(PLACES_DEADLINE_S * 1000)}"})
        self._clock = clock
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def take(self, asked: TakePlaces) -> list[int]:
        """Take places; return a PlaceStatus for each, durable."""
        rows = asked.places
        found = await self._run(
            "SELECT take_places($1, $2, $3, $4, $5, $6)",
            _date(asked.day),
            [one.user for one in rows],
            [one.sender for one in rows],
            [one.envelope_id for one in rows],
            asked.most,
            asked.most_of_sender,
        )
        return list(found)

    async def give_back(self, asked: GiveBack) -> None:
        """Give back what was taken, once each; durable when it returns."""
        users, envelopes = [one.user for one in asked.places], [one.envelope_id for one in asked.places]
        await self._run("SELECT give_back_places($1, $2, $3)", _date(asked.day), users, envelopes)

    async def forget(self) -> None:
        """Forget the places of days that are over."""
        first = business_date(self._clock.now()) - timedelta(days=PLACES_KEPT_DAYS)
        while await self._run("SELECT forget_places($1, $2)", first, PLACES_FORGOTTEN) == PLACES_FORGOTTEN:
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def _run(self, statement: str, *args: Any) -> Any:
        if self._waiting >= MAX_WAITING_PLACES:
            raise Unavailable("busy", "too many wait for places of the day", retry_after_s=BUSY_RETRY_S)
        self._waiting += 1
        loop = asyncio.get_running_loop()
        end = loop.time() + PLACES_DEADLINE_S
        try:
            # One deadline for turn and statement: a caller that has gone must not use up places of its users.
            async with self._its_turn(end):
                return await self._session.run(
                    lambda connection: connection.fetchval(statement, *args), end - loop.time()
                )
        finally:
            self._waiting -= 1

    @contextlib.asynccontextmanager
    async def _its_turn(self, end: float) -> AsyncIterator[None]:
        """Hold the turn for the block; raises Unavailable `busy` if it does not come by `end` (loop time)."""
        try:
            async with asyncio.timeout_at(end):
                await self._turn.acquire()
        except TimeoutError:
            raise Unavailable("busy", "others wait for places of the day", retry_after_s=BUSY_RETRY_S) from None
        try:
            yield
        finally:
            self._turn.release()


def _date(day: int) -> date:
    return date(1970, 1, 1) + timedelta(days=day)
