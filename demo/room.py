"""A group chat that goes on by itself: members send and open beside a visitor, who sees what a crowd is.

Members are users of the API like any other. Each envelope names all of them (`to`), so that each finds it in their
list of waiting envelopes; so do those that the visitor sends to the room. Some go to fewer than all: who is late hears
so, as in life.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from client import InsufficientFunds, Mine, OutcomeUnknown, TryLater
from demo.people import People

SEND_S: Final = (4.0, 9.0)
"""Between two envelopes of the members."""
LOOK_S: Final = 1.0
"""How often a member looks at what waits for them."""
TAP_S: Final = 2.5
"""How long a member takes to tap, in the mean."""
AGAIN: Final = 0.2
"""So many tap once more, and must hear the same."""
SUMS_FEN: Final = (200, 520, 666, 888, 1_000, 1_314, 2_000)
GREETINGS: Final = ("大吉大利", "新年快乐", "好运来", "辛苦了", "生日快乐", "Good luck!", "早上好")
PASSWORD: Final = "年年有余"  # noqa: S105 - a greeting, no secret


@dataclass
class Seen:
    """What has happened in the room."""

    sent: int = 0
    opened: int = 0
    late: int = 0
    visitor_sent: int = 0
    contradictions: list[str] = field(default_factory=list)
    """Members who were told two amounts of one envelope."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures as builtins for JSON."""
        return asdict(self)


class Room:
    """`members` play, `visitor` is left alone; `say` is told each line of the chat."""

    def __init__(
        self, people: People, members: Sequence[str], visitor: str, rng: random.Random, say: Callable[[str], None]
    ) -> None:
        self._people = people
        self._members = [one for one in members if one != visitor]
        self._visitor = visitor
        self._rng = rng
        self._say = say
        self._known: set[str] = set()
        self.seen = Seen()

    async def run(self, stop: asyncio.Event) -> None:
        """Play until `stop`, or until cancelled; raises what a member raised."""
        async with asyncio.TaskGroup() as tasks:
            playing = [tasks.create_task(self._send_on())]
            playing += [tasks.create_task(self._open_on(one)) for one in self._members]
            await stop.wait()
            for one in playing:
                one.cancel()

    async def _send_on(self) -> None:
        while True:
            sender = self._rng.choice(self._members)
            # Who has given more than they have won waits until they have won again; a gateway that is away comes back.
            with contextlib.suppress(InsufficientFunds, TryLater, OutcomeUnknown):
                await self._people[sender].create(**self._terms())
                self.seen.sent += 1
            await asyncio.sleep(self._rng.uniform(*SEND_S))

    def _terms(self) -> dict[str, Any]:
        everybody = [*self._members, self._visitor]
        count = self._rng.choice((5, 8, 10, len(everybody)))
        fen = self._rng.choice(SUMS_FEN)
        terms: dict[str, Any] = {"to": everybody, "count": count, "greeting": self._rng.choice(GREETINGS)}
        kind = self._rng.choice(("lucky", "lucky", "lucky", "equal", "password"))
        if kind == "equal":
            return {**terms, "kind": "equal", "total_fen": fen // count * count}
        if kind == "password":
            return {**terms, "kind": "lucky", "total_fen": fen, "password": PASSWORD, "greeting": f"口令 {PASSWORD}"}
        return {**terms, "kind": "lucky", "total_fen": fen}

    async def _open_on(self, member: str) -> None:
        begun: set[str] = set()
        async with asyncio.TaskGroup() as taps:
            while True:
                with contextlib.suppress(TryLater, OutcomeUnknown):
                    async for one in self._people[member].waiting():
                        if one.sender is not None and one.envelope_id not in begun:
                            begun.add(one.envelope_id)
                            self._note(one)
                            taps.create_task(self._tap(member, one))
                await asyncio.sleep(self._rng.uniform(0.5, 1.5) * LOOK_S)

    def _note(self, envelope: Mine) -> None:
        if envelope.envelope_id in self._known:
            return
        self._known.add(envelope.envelope_id)
        self.seen.visitor_sent += envelope.sender == self._visitor
        self._say(f"{envelope.sender}: {envelope.greeting} ({envelope.count})")

    async def _tap(self, member: str, envelope: Mine) -> None:
        await asyncio.sleep(self._rng.expovariate(1 / TAP_S))
        # What members send with a password is opened with it; what the visitor sends with another one stays theirs.
        word = PASSWORD if PASSWORD in (envelope.greeting or "") else None
        try:
            told = await self._people.open(member, envelope.envelope_id, word)
        except (TryLater, OutcomeUnknown):
            self.seen.late += 1
            return
        if not told.opened:
            self.seen.late += 1
            return
        self.seen.opened += 1
        if told.last:
            self._say(f"  {envelope.greeting}: all {envelope.count} are gone")
        if self._rng.random() < AGAIN:
            again = await self._people.open(member, envelope.envelope_id, word)
            if again.amount_fen != told.amount_fen:
                self.seen.contradictions.append(f"{member} was told {told} and then {again}")
