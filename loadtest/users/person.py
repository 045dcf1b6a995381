"""One user over HTTP, as on a phone: double clicks, retries after 503 and 504, and compares answers."""

import random
import time
from collections.abc import Callable
from itertools import count
from typing import Final, TypeVar

import gevent  # type: ignore[import-untyped]
from locust import FastHttpUser

from client import ApiError, Detail, Envelope, OutcomeUnknown, Patience, Result, calls
from client.calls import Call, settled
from client.errors import no_answer
from loadtest.users.world import Message, World

T = TypeVar("T")
PATIENCE: Final = Patience(attempts=4, total_s=60.0)
DOUBLE_CLICK: Final = 0.10
"""Part of all opens that are sent twice at the same time."""
ASKS_AGAIN: Final = 0.10
"""Part of all opens and creates that are repeated a moment later, as if the answer had been missed."""
FEN_A_SHARE: Final = 100


class Person(FastHttpUser):
    """A user with a name. Subclasses define one step as `live`; steps come at the pace of the phase."""

    abstract = True
    network_timeout = 30.0
    connection_timeout = 10.0
    world: World

    def on_start(self) -> None:
        """Take a name (locust)."""
        self.name = f"person-{self.world.number()}"
        self.luck = random.Random(self.name)
        self._due = time.perf_counter()

    def wait_time(self) -> float:
        """Keep the pace: the time that a step took is subtracted from the wait (locust)."""
        now = time.perf_counter()
        self._due = max(now, self._due + self.world.phase.pace_s * self.luck.uniform(0.5, 1.5))
        return self._due - now

    def send(self, shares: int) -> Message | None:
        """Send an envelope; some requests are repeated and must give the same envelope."""
        sender = self.world.sender()
        call = calls.create(total_fen=shares * FEN_A_SHARE, count=shares)
        made = self._created(sender, call)
        if made is not None and self.luck.random() < ASKS_AGAIN:
            again = self._created(sender, call)
            if again is not None and again != made:
                self.world.tally.fail("a repeated create gave another envelope")
        return made

    def grab(self, message: Message, user: str | None = None) -> str:
        """Ask whether it can be opened; returns the result."""
        return self._ask("grab", message, user or self.name)

    def open(self, message: Message, user: str | None = None) -> str:
        """Open it: with one click, with two at once, or again a moment later; returns the first result."""
        who = user or self.name
        if self.luck.random() < DOUBLE_CLICK:
            clicks = [gevent.spawn(self._ask, "open", message, who) for _ in range(2)]
            gevent.joinall(clicks, raise_error=True)
            results = [click.value for click in clicks]
            return "opened" if "opened" in results else str(results[0])
        result = self._ask("open", message, who)
        if self.luck.random() < ASKS_AGAIN:
            self._ask("open", message, who)
        return result

    def view(self, message: Message, user: str | None = None) -> Detail | None:
        """Request the envelope's detail; None where it was refused."""
        try:
            return self._again("view", calls.detail(message.share_id), user or self.name)
        except ApiError:
            return None

    def _created(self, sender: str, call: Call[Envelope]) -> Message | None:
        try:
            made = self._again("create", call, sender)
        except ApiError:
            return None
        return Message(made.envelope_id, made.share_id or "")

    def _ask(self, name: str, message: Message, user: str) -> str:
        """Grab or open, with retries; the answer is compared with earlier ones to this user."""
        known, envelope = self.world.known, message.envelope_id
        call = calls.open_(message.share_id) if name == "open" else calls.grab(message.share_id)

        def before_each() -> None:
            if name == "open":
                known.sent(envelope, user)

        try:
            told = self._again(name, call, user, before_each)
        except ApiError as error:
            return error.code
        known.received(name, envelope, user, told.result, told.amount_fen)
        return told.result

    def _again(self, name: str, call: Call[T], user: str, before_each: Callable[[], None] = lambda: None) -> T:
        """Send until there is an answer, as PATIENCE and the budget of retries allow; raises the last ApiError."""
        headers = {**call.headers, "Authorization": self.world.bearer(user)}
        budget, began = self.world.retries, time.monotonic()
        budget.sent()
        unknown = False
        for attempt in count(1):
            before_each()
            try:
                return self._once(name, call, headers)
            except ApiError as error:
                unknown |= isinstance(error, OutcomeUnknown)
                wait_s = PATIENCE.wait_s(error, attempt, time.monotonic() - began)
                if wait_s is None or not budget.may_retry():
                    raise settled(error, call, unknown=unknown) from error
            gevent.sleep(wait_s)
        raise AssertionError("there is always a next attempt")

    def _once(self, name: str, call: Call[T], headers: dict[str, str]) -> T:
        """Return the value of the answer, and tell locust and the tally of it; raises ApiError."""
        with self.client.request(
            call.method, call.path, name=name, data=call.body.decode() or None, headers=headers, catch_response=True
        ) as response:
            told: T | None = None
            error: ApiError | None = None
            try:
                if not response.status_code:
                    raise no_answer(response.error or ConnectionError("no answer"))
                told = call.read(int(response.status_code), response.headers or {}, response.content or b"")
                result = _result(told)
            except ApiError as refused:
                error, result = refused, refused.code
            ms = float(response.request_meta["response_time"])
            self.world.tally.record(name, result, ms, time.time() - ms / 1000)
            if error is None or result == "busy":
                response.success()
            else:
                self.world.tally.fail(f"{name} answered {response.status_code} {result}")
                response.failure(result)
        if error is not None:
            raise error
        return told  # type: ignore[return-value]


def _result(told: object) -> str:
    if isinstance(told, Result):
        return told.result
    return "shown" if isinstance(told, Detail) else "created"
