"""The scenes of the demo. Each plays one envelope, checks its money, and returns the outcome to be shown."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from client import Detail, Envelope, Result
from demo.people import People
from errors import InvariantBroken

GROUP = 20
"""As in a field study of groups: 20 people, 20 yuan in 20 shares, 15 and then 19 rounds."""
GROUP_FEN = 2_000
CROWD = 500
CROWD_SHARES = 100
CROWD_FEN = 50_000
EXPIRES_IN_S = 2
PASSWORD = "恭喜发财"  # noqa: S105 - a greeting, no secret


@dataclass(frozen=True)
class Outcome:
    """One envelope after its scene. `shares`: (user, fen) in order of opening; `best`: the largest share."""

    title: str
    people: int
    total_fen: int
    claimed_fen: int
    refund_fen: int
    shares: list[tuple[str, int]]
    best: tuple[str, int] | None
    note: str = ""


Deposit = Callable[[str, int], Awaitable[object]]


class Scenes:
    """`deposit` credits a user's wallet in fen; `rng` chooses the users who open twice."""

    def __init__(self, people: People, deposit: Deposit, rng: random.Random) -> None:
        self._people = people
        self._deposit = deposit
        self._rng = rng

    async def round(self, number: int) -> Outcome:
        """Let a group of 20 open 20 yuan in 20 shares at once; a third of them open twice."""
        sender = f"sender-{number % GROUP:02d}"
        people = [f"member-{one:02d}" for one in range(GROUP)]
        return await self._sold_out(f"round {number + 1}", sender, people, GROUP_FEN, GROUP)

    async def crowd(self) -> Outcome:
        """Let 500 people open 100 shares at once: 100 win, the others get `sold_out`."""
        people = [f"crowd-{one:03d}" for one in range(CROWD)]
        return await self._sold_out("crowd of 500", "host", people, CROWD_FEN, CROWD_SHARES)

    async def expiring(self) -> Outcome:
        """Let an envelope expire with shares left."""
        envelope = await self._send("forgetful", 1_000, 10, expires_in_s=EXPIRES_IN_S)
        won = [await self._people.open(f"early-{one}", envelope) for one in range(4)]
        detail = await self._closed("forgetful", envelope)
        late = await self._people.open("late", envelope)
        _check(late.result == "expired", f"an open after the close got {late.result}")
        return self._remainder("expires", detail, won, 5, "expired, the rest was refunded")

    async def canceled(self) -> Outcome:
        """Let the sender cancel with shares left."""
        envelope = await self._send("fickle", 1_000, 10)
        won = [await self._people.open(f"quick-{one}", envelope) for one in range(3)]
        detail = await self._people["fickle"].cancel(envelope)
        late = await self._people.open("slow", envelope)
        _check(late.result == "canceled", f"an open after the close got {late.result}")
        return self._remainder("canceled", detail, won, 4, "canceled, the rest was refunded")

    async def password(self) -> Outcome:
        """Let three users open with the password and one try a wrong one."""
        envelope = await self._send("riddler", 600, 3, password=PASSWORD)
        wrong = await self._people.open("stranger", envelope, password="芝麻开门")  # noqa: S106 - the wrong one
        _check(wrong.result == "wrong_password", f"a wrong password got {wrong.result}")
        people = [f"friend-{one}" for one in range(3)]
        won = await asyncio.gather(*(self._people.open(one, envelope, password=PASSWORD) for one in people))
        detail = await self._people["riddler"].detail(envelope)
        _check(all(one.opened for one in won), "an open with the right password did not win")
        return _outcome("password", detail, 4, f"one wrong try, {wrong.tries_left} left")

    async def _sold_out(self, title: str, sender: str, people: list[str], fen: int, shares: int) -> Outcome:
        envelope = await self._send(sender, fen, shares)
        opens = people + self._rng.sample(people, len(people) // 3)
        self._rng.shuffle(opens)
        answers = await asyncio.gather(*(self._people.open(user, envelope) for user in opens))
        won: dict[str, int] = {}
        opened = 0
        for user, answer in zip(opens, answers, strict=True):
            opened += answer.opened
            if answer.amount_fen is not None:
                before = won.setdefault(user, answer.amount_fen)
                _check(before == answer.amount_fen, f"{user} received two different amounts")
        _check(opened == shares and sum(won.values()) == fen, f"{opened} of {shares} opened, {sum(won.values())} fen")
        detail = await self._people[sender].detail(envelope)
        _check(detail.status == "sold_out", f"all shares are claimed, but the status is {detail.status}")
        return _outcome(title, detail, len(people))

    async def _send(self, sender: str, fen: int, shares: int, **more: Any) -> Envelope:
        await self._deposit(sender, fen)
        return await self._people[sender].create(total_fen=fen, count=shares, **more)

    async def _closed(self, sender: str, envelope: Envelope) -> Detail:
        async with asyncio.timeout(EXPIRES_IN_S + 10):
            while True:
                detail = await self._people[sender].detail(envelope)
                if detail.refund_fen is not None:
                    return detail
                await asyncio.sleep(0.1)

    def _remainder(self, title: str, detail: Detail, won: list[Result], people: int, note: str) -> Outcome:
        left = detail.total_fen - sum(one.amount_fen or 0 for one in won)
        _check(detail.refund_fen == left, f"{detail.refund_fen} fen were refunded where {left} were left")
        return _outcome(title, detail, people, note)


def _outcome(title: str, detail: Detail, people: int, note: str = "") -> Outcome:
    best = detail.best_luck
    return Outcome(
        title=title,
        people=people,
        total_fen=detail.total_fen,
        claimed_fen=detail.claimed_fen,
        refund_fen=detail.refund_fen or 0,
        shares=[(claim.user, claim.amount_fen) for claim in detail.claims],
        best=(best.user, best.amount_fen) if best else None,
        note=note,
    )


def _check(holds: bool, sentence: str) -> None:
    if not holds:
        raise InvariantBroken("demo_adds_up", sentence)
