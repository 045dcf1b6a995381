"""A whole running stack for tests of the real thing, and people who keep using it while parts of it die."""

import asyncio
import contextlib
import math
import random
import uuid
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from audit.report import Report
from client import (
    ApiError,
    Attempt,
    Detail,
    Envelope,
    Hongbao,
    OutcomeUnknown,
    Patience,
    Result,
    RetryBudget,
    TryLater,
    User,
)
from installation.access import Access
from installation.finding import find
from local.config import StackConfig
from local.stack import Stack

T = TypeVar("T")
CALL_S = 8.0
SETTLE_S = 40.0
PAUSE_S = 0.05
"""Between two calls of one of the people: they are to be there when something dies, not to be fast."""
OURS = 500
"""From this status on the fault is the system's."""


@dataclass
class Running:
    """A stack and how to reach it."""

    stack: Stack
    access: Access
    data: Path

    async def deposit(self, user: str, fen: int) -> None:
        async with self.access.wallet() as wallet:
            await wallet.deposit(f"D{uuid.uuid4().hex}", user, fen)

    async def settled_audit(self) -> Report:
        """Audit until nothing is in flight."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                report = await self.access.audit()
                if not report.holds or report.sums.in_flight == 0:
                    return report
                await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def running_stack(data: Path, **config: Any) -> AsyncIterator[Running]:
    """Start everything on any free port; stop it at the end."""
    async with Stack(StackConfig(data=data, port=0, **{"ahead_days": 1, "slots": 40, **config})) as stack:
        yield Running(stack, find(data), data)


@pytest.fixture
async def running(server_folder: Path) -> AsyncIterator[Running]:
    """A fresh stack of 2 SETs with 2 servers each; its books must be clean at the end."""
    async with running_stack(server_folder / "data") as one:
        yield one


@dataclass(frozen=True)
class Stubborn(Patience):
    """People who tap again at once whatever Retry-After says, while the answer is 5xx or none, until `total_s` is over.

    Harder on what has just come back than the client's own patience, and the sooner to meet it half up.
    """

    luck: random.Random = field(default_factory=random.Random)

    def wait_s(self, error: ApiError, attempt: int, spent_s: float) -> float | None:
        again = isinstance(error, TryLater | OutcomeUnknown) and (error.code == "no_answer" or error.status >= OURS)
        return self.luck.uniform(0.02, 0.2) if again and spent_s < self.total_s else None


@dataclass
class Crowd:
    """People who create and open envelopes without pause, retry as phones do, and remember what they were told.

    Use it as `async with`: its calls are those of one `client.Hongbao`. What the gateway refuses is raised as the
    client raises it; no answer within `patience_s`, or one that is a fault of the system, is an AssertionError.
    """

    running: Running
    seed: int
    opened: dict[tuple[str, str], int] = field(default_factory=dict)
    envelopes: list[Envelope] = field(default_factory=list)
    answers: int = 0
    contradictions: list[str] = field(default_factory=list)
    patience_s: float = 60.0
    call_s: float = CALL_S
    url: str = ""
    """Where they call; where the stack says, if it is empty."""
    _stop: bool = False

    def __post_init__(self) -> None:
        self._luck = random.Random(self.seed)
        self._users: dict[str, User] = {}
        patience = Stubborn(attempt_s=self.call_s, total_s=self.patience_s, luck=self._luck)
        self._hongbao = Hongbao(
            self.url or self.running.access.gateway_url,
            patience=patience,
            budget=RetryBudget(reserve=math.inf),
            on_attempt=self.attempted,
        )

    async def __aenter__(self) -> Self:
        await self._hongbao.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._hongbao.__aexit__()

    def attempted(self, attempt: Attempt) -> None:
        """Hear of each request that was sent, also of those that are repeated."""

    def user(self, name: str) -> User:
        """Return one of the people, whose calls count as answers only if they are made by a method of the crowd."""
        if name not in self._users:
            self._users[name] = self._hongbao.user(self.running.access.token(name))
        return self._users[name]

    @contextlib.asynccontextmanager
    async def busy(self, people: int = 24, senders: int = 4) -> AsyncIterator[Self]:
        """Keep everybody busy for the block."""
        tasks = [asyncio.ensure_future(self._send_on(f"sender-{one}")) for one in range(senders)]
        tasks += [asyncio.ensure_future(self._open_on(f"user-{one}")) for one in range(people)]
        try:
            yield self
        finally:
            self.stop()
            await asyncio.gather(*tasks)

    def stop(self) -> None:
        """Let everybody finish what they are at, and begin nothing more."""
        self._stop = True

    async def until(self, more: int) -> None:
        """Wait until `more` further answers have come."""
        goal = self.answers + more
        async with asyncio.timeout(SETTLE_S):
            while self.answers < goal:
                await asyncio.sleep(0.02)

    async def create(self, sender: str, *, total_fen: int, count: int, **terms: Any) -> Envelope:
        """Send an envelope; repeats of the client have the same key."""
        return await self._answer(self.user(sender).create(total_fen=total_fen, count=count, **terms))

    async def open(self, user: str, envelope: Envelope) -> Result:
        """Open, and compare with what this user was told before."""
        told = await self._answer(self.user(user).open(envelope))
        envelope_id = envelope.envelope_id
        if told.result in ("opened", "already_opened"):
            if told.amount_fen is None:
                self.contradictions.append(f"{user} was not told how much of {envelope_id}")
                return told
            before = self.opened.setdefault((envelope_id, user), told.amount_fen)
            if before != told.amount_fen:
                self.contradictions.append(f"{user} heard {before} and {told.amount_fen} of {envelope_id}")
        elif (envelope_id, user) in self.opened:
            self.contradictions.append(f"{user} had won {envelope_id} and then heard {told.result}")
        return told

    async def detail(self, user: str, envelope: Envelope) -> Detail:
        """Look at an envelope, with its first 100 claims."""
        return await self._answer(self.user(user).detail(envelope))

    async def cancel(self, sender: str, envelope: Envelope) -> Detail:
        """Close an envelope."""
        return await self._answer(self.user(sender).cancel(envelope))

    async def balance_fen(self, user: str) -> int:
        """Look at a wallet."""
        return await self._answer(self.user(user).balance_fen())

    async def tap(self, user: str, envelope: Envelope) -> None:
        """Open; a refusal is a contradiction as well."""
        try:
            await self.open(user, envelope)
        except ApiError as error:
            self.contradictions.append(f"open: {error.status} {error}")

    async def _answer(self, call: Awaitable[T]) -> T:
        try:
            told = await call
        except ApiError as error:
            if error.status == 0 or error.status >= OURS:
                raise AssertionError(f"within {self.patience_s:.0f} s no answer but {error.status} {error}") from error
            self.answers += 1
            raise
        self.answers += 1
        return told

    async def _send_on(self, sender: str) -> None:
        while not self._stop:
            count = self._luck.choice((5, 20, 50))
            try:
                self.envelopes.append(await self.create(sender, total_fen=count * 100, count=count))
            except ApiError as error:
                if error.code != "create_undone":
                    self.contradictions.append(f"create: {error.status} {error}")
            await asyncio.sleep(2 * PAUSE_S)

    async def _open_on(self, user: str) -> None:
        while not self._stop:
            if not self.envelopes:
                await asyncio.sleep(0.02)
                continue
            await self.tap(user, self._luck.choice(self.envelopes[-30:]))
            await asyncio.sleep(PAUSE_S)

    async def check(self) -> None:
        """Everything anybody was told must stand."""
        assert self.contradictions == []
        for envelope in self.envelopes:
            detail = await self.detail("sender-0", envelope)
            claims = {claim.user: claim.amount_fen for claim in detail.claims}
            told = {user: fen for (one, user), fen in self.opened.items() if one == envelope.envelope_id}
            assert told.items() <= claims.items(), envelope.envelope_id
