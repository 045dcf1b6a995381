"""Users who open envelopes, each until they are answered, at a steady rate for each SET.

A SET that does not answer has at most WAITING users who try again; it is given no more until it answers some, so that
the load on the others, on a machine that all share, stays what it was.
"""

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from client import ApiError, Hongbao
from client.errors import TryLater
from client.hongbao import User
from client.models import Envelope
from client.retries import Patience
from errors import Unavailable
from hosts.drill.journal import Journal
from hosts.drill.lane import Lane
from installation.access import Access

ATTEMPT_S = 5.0
PAUSE_S, LONGEST_PAUSE_S = 0.2, 1.0
WAITING = 80
CREATORS = 6
STOCK_S = 30.0
"""Creates of a SET that is away wait for it, and with them those who make envelopes for all."""
SIZES = (1, 2, 5, 20, 50, 100, 200)
LATE = 2
"""Users of each envelope who come after its last share."""
SENDERS = 4
DEPOSIT_FEN = 10**12
FINISH_S = 60.0


@dataclass
class Stock:
    """An envelope that users of a SET open. `tickets` are those who have not begun yet."""

    envelope: Envelope
    tickets: list[str] = field(default_factory=list)


class Load:
    """Users of an installation; `rate` is opens a second for each SET. Everything runs inside `running`.

    `access` is set anew when the installation's files have changed.
    """

    def __init__(self, access: Access, journal: Journal, rate: float, *, seed: int = 1) -> None:
        self.access = access
        self.journal = journal
        self.rate = rate
        self.stock_s = STOCK_S
        """For how long each SET has users who wait for their turn, without a create."""
        self.lanes = {one.name: Lane(one.name) for one in access.topology().sets}
        self.unanswered: list[str] = []
        """Users who were not answered although everything was whole again for FINISH_S."""
        self._stock: dict[str, list[Stock]] = {name: [] for name in self.lanes}
        self._envelopes: dict[int, Envelope] = {}
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._users: dict[str, User] = {}
        self._creating = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], Lane] = {}
        self._created = 0
        self._creates = 0
        """Creates that are under way."""
        self._hongbao = Hongbao(access.gateway_url, patience=Patience(attempts=1, attempt_s=ATTEMPT_S))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Deposit what the senders need, and run until the block ends."""
        async with self.access.wallet() as wallet:
            for number in range(SENDERS):
                await wallet.deposit(self.access.order_no(), f"sender-{number}", DEPOSIT_FEN)
        async with self._hongbao:
            self._creating.set()
            work = [asyncio.create_task(self._issue(name)) for name in self.lanes]
            work += [asyncio.create_task(self._create()) for _ in range(CREATORS)]
            try:
                yield
            finally:
                left = [*work, *self._tasks]
                for one in left:
                    one.cancel()
                await asyncio.gather(*left, return_exceptions=True)

    async def rest(self, *names: str) -> None:
        """Let nobody begin (at these SETs: all unless named), no sender either; wait until all are answered.

        Who is not answered within FINISH_S gives up, and is in `unanswered`.
        """
        self._creating.clear()
        lanes = [self.lanes[one] for one in names or self.lanes]
        for lane in lanes:
            lane.open = False
        loop = asyncio.get_running_loop()
        end = loop.time() + FINISH_S
        while (self._creates or any(one.waiting for one in lanes)) and loop.time() < end:
            await asyncio.sleep(0.05)
        for task, lane in [*self._tasks.items()]:
            if lane in lanes and not task.done():
                self.unanswered.append(task.get_name())
                task.cancel()

    def sort(self) -> None:
        """Put every envelope that waits for users to the SET that holds it now: a database may have moved."""
        topology = self.access.topology()
        waiting = [one for some in self._stock.values() for one in some]
        for some in self._stock.values():
            some.clear()
        for one in waiting:
            self._stock[topology.set_for(int(one.envelope.envelope_id)).name].append(one)

    def go_on(self) -> None:
        """Let everybody begin again."""
        for lane in self.lanes.values():
            lane.open = True
        self._creating.set()

    async def ask_again(self, whom: Iterable[tuple[int, str]], at_once: int = 20) -> None:
        """Let each of these users open the same envelope once more; the journal compares."""
        limit = asyncio.Semaphore(at_once)

        async def one(envelope_id: int, user: str) -> None:
            async with limit:
                await self._until_answered(self._envelopes[envelope_id], user, Lane("again"))

        await asyncio.gather(*(one(*who) for who in whom))

    async def _issue(self, name: str) -> None:
        """Let a user of this SET begin at every beat."""
        loop, lane = asyncio.get_running_loop(), self.lanes[name]
        due = loop.time()
        while True:
            due = max(due + 1 / self.rate, loop.time() - 1.0)
            await asyncio.sleep(max(0.0, due - loop.time()))
            stock = self._stock[name]
            if lane.waiting >= WAITING or not stock or not lane.open:
                continue
            chosen = self._random.randrange(len(stock))
            user = stock[chosen].tickets.pop()
            envelope = stock[chosen].envelope
            if not stock[chosen].tickets:
                stock[chosen] = stock[-1]
                stock.pop()
            self._begin(envelope, user, lane)

    def _begin(self, envelope: Envelope, user: str, lane: Lane) -> None:
        lane.waiting += 1
        task = asyncio.create_task(self._until_answered(envelope, user, lane), name=f"{user} of {envelope.envelope_id}")
        self._tasks[task] = lane

        def done(task: "asyncio.Task[None]") -> None:
            lane.waiting -= 1
            self._tasks.pop(task, None)
            if not task.cancelled() and (error := task.exception()) is not None:
                self.journal.wrong.append(f"{task.get_name()}: {type(error).__name__}: {error}")

        task.add_done_callback(done)

    async def _until_answered(self, envelope: Envelope, user: str, lane: Lane) -> None:
        loop = asyncio.get_running_loop()
        began, envelope_id = loop.time(), int(envelope.envelope_id)
        while True:
            number = self.journal.asks("open", envelope=envelope_id, user=user)
            try:
                result = await self._user(user).open(envelope)
            except ApiError as error:
                lane.failed[error.code] += 1
                self.journal.heard(number, error=error.code, status=error.status)
                await self._pause(error)
                continue
            self.journal.told(number, envelope_id, user, result.result, result.amount_fen)
            now = loop.time()
            lane.answer(now, now - began, won=result.opened)
            return

    async def _pause(self, error: ApiError) -> None:
        asked = error.retry_after_s if isinstance(error, TryLater) else 0.0
        pause_s = min(max(asked, PAUSE_S), LONGEST_PAUSE_S)
        await asyncio.sleep(pause_s * self._random.uniform(1.0, 1.5))

    async def _create(self) -> None:
        """Keep every SET in stock. Which SET an envelope is of shows its ID alone, so both are filled."""
        while True:
            await self._creating.wait()
            if all(self._tickets(name) >= self.rate * self.stock_s for name in self.lanes):
                await asyncio.sleep(0.1)
                continue
            self._creates += 1
            try:
                await self._create_one()
            finally:
                self._creates -= 1

    async def stocked(self, within_s: float = FINISH_S) -> None:
        """Wait until every SET has users for `stock_s`, `within_s` at most."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while loop.time() < end and any(self._tickets(name) < self.rate * self.stock_s for name in self.lanes):
            await asyncio.sleep(0.1)

    def _tickets(self, name: str) -> int:
        return sum(len(one.tickets) for one in self._stock[name])

    async def _create_one(self) -> None:
        sender = f"sender-{self._created % SENDERS}"
        self._created += 1
        size, key = self._random.choice(SIZES), uuid.uuid4().hex
        total_fen = size * self._random.randint(2, 50)
        while True:
            number = self.journal.asks("create", sender=sender, key=key, count=size, total_fen=total_fen)
            try:
                made = await self._user(sender).create(total_fen=total_fen, count=size, idempotency_key=key)
            except ApiError as error:
                for lane in self.lanes.values():
                    lane.failed[f"create {error.code}"] += 1
                self.journal.heard(number, error=error.code, status=error.status)
                await self._pause(error)
                continue
            break
        self.journal.heard(number, envelope=made.envelope_id)
        envelope_id = int(made.envelope_id)
        self._envelopes[envelope_id] = made
        tickets = [f"u{one}" for one in range(size + LATE)]
        self._stock[self.access.topology().set_for(envelope_id).name].append(Stock(made, tickets))

    def _user(self, name: str) -> User:
        found = self._users.get(name)
        if found is None:
            found = self._users[name] = self._hongbao.user(lambda: self.access.token(name))
        return found


async def until_answered(lane: Lane, since: float, *, answers: int, within_s: float) -> None:
    """Wait until a SET has answered so many since an instant; raises Unavailable `no_answers`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while lane.wins_since(since) < answers:
        if loop.time() > end:
            raise Unavailable("no_answers", f"{lane.name} has answered nobody for {within_s:g} s")
        await asyncio.sleep(0.02)
