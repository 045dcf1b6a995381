"""What the groups play. Every scene checks its own money and returns what a person would want to see of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from cluster.demo.client import Phones
from envelope.errors import InvariantBroken

GROUP = 20
"""The field's study: 20 people, 20 yuan in 20 shares, 15 and then 19 rounds."""
GROUP_FEN = 2_000
CROWD = 500
CROWD_SHARES = 100
CROWD_FEN = 50_000
EXPIRES_IN_S = 2
PASSWORD = "恭喜发财"  # noqa: S105 - the greeting that everybody says


@dataclass(frozen=True)
class Outcome:
    """One envelope as played."""

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
    """Plays scenes; `deposit` puts money into a user's wallet. `luck` decides who taps twice."""

    def __init__(self, phones: Phones, deposit: Deposit, luck: random.Random) -> None:
        self._phones = phones
        self._deposit = deposit
        self._luck = luck

    async def round(self, number: int) -> Outcome:
        """Let the group of 20 open 20 yuan in 20 shares, all at once, a third of them twice."""
        sender = f"sender-{number % GROUP:02d}"
        people = [f"member-{one:02d}" for one in range(GROUP)]
        return await self._sold_out(f"round {number + 1}", sender, people, GROUP_FEN, GROUP)

    async def crowd(self) -> Outcome:
        """Let 500 people open 100 shares at once: 100 win, 400 learn at once that they are too late."""
        people = [f"crowd-{one:03d}" for one in range(CROWD)]
        return await self._sold_out("crowd of 500", "host", people, CROWD_FEN, CROWD_SHARES)

    async def expiring(self) -> Outcome:
        """Let an envelope run out of time with a remainder."""
        envelope = await self._send("forgetful", 1_000, 10, expires_in_s=EXPIRES_IN_S)
        won = [await self._phones.open(f"early-{one}", envelope) for one in range(4)]
        detail = await self._closed("forgetful", envelope)
        late = await self._phones.open("late", envelope)
        _hold(late["result"] == "expired", f"who came late heard {late['result']}")
        return self._remainder("expires", detail, won, 5, "closed by time, the rest went back")

    async def canceled(self) -> Outcome:
        """Let the sender change his mind."""
        envelope = await self._send("fickle", 1_000, 10)
        won = [await self._phones.open(f"quick-{one}", envelope) for one in range(3)]
        detail = await self._phones.cancel("fickle", envelope)
        late = await self._phones.open("slow", envelope)
        _hold(late["result"] == "canceled", f"who came late heard {late['result']}")
        return self._remainder("canceled", detail, won, 4, "the sender took the rest back")

    async def password(self) -> Outcome:
        """Let people say the password; one does not know it."""
        envelope = await self._send("riddler", 600, 3, password=PASSWORD)
        wrong = await self._phones.open("stranger", envelope, password="芝麻开门")  # noqa: S106 - the wrong one
        _hold(wrong["result"] == "wrong_password", f"a wrong password heard {wrong['result']}")
        people = [f"friend-{one}" for one in range(3)]
        won = await asyncio.gather(*(self._phones.open(one, envelope, password=PASSWORD) for one in people))
        detail = await self._phones.detail("riddler", envelope)
        _hold(all(one["result"] == "opened" for one in won), "a friend who knew the password did not get in")
        return _outcome("password", detail, 4, f"one wrong try, {wrong['tries_left']} left")

    async def _sold_out(self, title: str, sender: str, people: list[str], fen: int, shares: int) -> Outcome:
        envelope = await self._send(sender, fen, shares)
        taps = people + self._luck.sample(people, len(people) // 3)
        self._luck.shuffle(taps)
        answers = await asyncio.gather(*(self._phones.open(user, envelope) for user in taps))
        won: dict[str, int] = {}
        opened = 0
        for user, answer in zip(taps, answers, strict=True):
            opened += answer["result"] == "opened"
            if answer["result"] in ("opened", "already_opened"):
                before = won.setdefault(user, answer["amount_fen"])
                _hold(before == answer["amount_fen"], f"{user} heard two amounts")
        _hold(opened == shares and sum(won.values()) == fen, f"{opened} of {shares} opened, {sum(won.values())} fen")
        detail = await self._phones.detail(sender, envelope)
        _hold(detail["status"] == "sold_out", f"it is {detail['status']} though every share is out")
        return _outcome(title, detail, len(people))

    async def _send(self, sender: str, fen: int, shares: int, **more: Any) -> dict[str, Any]:
        await self._deposit(sender, fen)
        return await self._phones.create(sender, kind="lucky", total_fen=fen, count=shares, **more)

    async def _closed(self, sender: str, envelope: dict[str, Any]) -> dict[str, Any]:
        async with asyncio.timeout(EXPIRES_IN_S + 10):
            while True:
                detail = await self._phones.detail(sender, envelope)
                if "refund_fen" in detail:
                    return detail
                await asyncio.sleep(0.1)

    def _remainder(
        self, title: str, detail: dict[str, Any], won: list[dict[str, Any]], people: int, note: str
    ) -> Outcome:
        left = detail["total_fen"] - sum(one["amount_fen"] for one in won)
        _hold(detail["refund_fen"] == left, f"{detail['refund_fen']} fen went back where {left} were left")
        return _outcome(title, detail, people, note)


def _outcome(title: str, detail: dict[str, Any], people: int, note: str = "") -> Outcome:
    best = detail.get("best_luck")
    return Outcome(
        title=title,
        people=people,
        total_fen=detail["total_fen"],
        claimed_fen=detail["claimed_fen"],
        refund_fen=detail.get("refund_fen", 0),
        shares=[(claim["user"], claim["amount_fen"]) for claim in detail["claims"]],
        best=(best["user"], best["amount_fen"]) if best else None,
        note=note,
    )


def _hold(holds: bool, sentence: str) -> None:
    if not holds:
        raise InvariantBroken("demo_adds_up", sentence)
