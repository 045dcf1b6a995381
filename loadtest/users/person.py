"""One user over HTTP, as on a phone: double clicks, retries after 503 and 504, and compares answers."""

import random
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

import gevent  # type: ignore[import-untyped]
import msgspec
from locust import FastHttpUser

from loadtest.users.world import Message, World

ATTEMPTS: Final = 4
DOUBLE_CLICK: Final = 0.10
"""Part of all opens that are sent twice at the same time."""
ASKS_AGAIN: Final = 0.10
"""Part of all opens and creates that are repeated a moment later, as if the answer had been missed."""
RETRY_AFTER_S: Final = 1.0
FEN_A_SHARE: Final = 100
_CREATED, _OK, _BUSY = 201, 200, 503

Answer = dict[str, Any]


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
        sender, key = self.world.sender(), uuid.uuid4().hex
        body = {"kind": "lucky", "total_fen": shares * FEN_A_SHARE, "count": shares}
        made = self._created(sender, key, body)
        if made is not None and self.luck.random() < ASKS_AGAIN:
            again = self._created(sender, key, body)
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

    def view(self, message: Message, user: str | None = None) -> Answer | None:
        """Request the envelope's detail; None where it was refused."""
        status, answer = self._again(
            "view", "GET", f"/v1/envelopes/{message.envelope_id}", user or self.name, share=message.share_token
        )
        return answer if status == _OK else None

    def _created(self, sender: str, key: str, body: Answer) -> Message | None:
        status, answer = self._again("create", "POST", "/v1/envelopes", sender, body, key=key)
        if status != _CREATED:
            return None
        return Message(str(answer["envelope_id"]), str(answer["share_token"]))

    def _ask(self, call: str, message: Message, user: str) -> str:
        """Grab or open, with retries; the answer is compared with earlier ones to this user."""
        known, envelope = self.world.known, message.envelope_id
        path = f"/v1/envelopes/{envelope}/{call}"

        def before_each() -> None:
            if call == "open":
                known.sent(envelope, user)

        status, answer = self._again(
            call, "POST", path, user, {"share_token": message.share_token}, before_each=before_each
        )
        if status == _OK:
            known.received(call, envelope, user, answer)
        return str(answer.get("result") or answer.get("code") or status)

    def _again(
        self,
        call: str,
        method: str,
        path: str,
        user: str,
        body: Answer | None = None,
        *,
        key: str | None = None,
        share: str | None = None,
        before_each: Callable[[], None] = lambda: None,
    ) -> tuple[int, Answer]:
        """Send until the answer is below 500, at most ATTEMPTS times, and while the budget of retries lasts."""
        headers = {"Authorization": self.world.bearer(user)}
        if key is not None:
            headers["Idempotency-Key"] = key
        if share is not None:
            headers["X-Share-Token"] = share
        budget = self.world.retries
        budget.sent()
        for attempt in range(1, ATTEMPTS + 1):
            before_each()
            status, answer, wait_s = self._once(call, method, path, body, headers)
            done = 0 < status < 500  # noqa: PLR2004 - 0: no answer at all
            if done or attempt == ATTEMPTS or not budget.may_retry():
                break
            gevent.sleep(wait_s * self.luck.uniform(0.5, 1.5))
        return status, answer

    def _once(
        self, call: str, method: str, path: str, body: Answer | None, headers: dict[str, str]
    ) -> tuple[int, Answer, float]:
        """Return status, JSON and how long to wait before a retry."""
        with self.client.request(method, path, name=call, json=body, headers=headers, catch_response=True) as response:
            status, answer = int(response.status_code), _read(response.content)
            result = _result(call, status, answer)
            ms = float(response.request_meta["response_time"])
            self.world.tally.record(call, result, ms, time.time() - ms / 1000)
            if status in (_OK, _CREATED) or (status == _BUSY and result == "busy"):
                response.success()
            else:
                self.world.tally.fail(f"{call} answered {status} {result}")
                response.failure(result)
            wait_s = float((response.headers or {}).get("Retry-After", RETRY_AFTER_S))
        return status, answer, wait_s


def _read(content: bytes | None) -> Answer:
    try:
        told = msgspec.json.decode(content or b"{}")
    except msgspec.DecodeError:
        return {"code": "no_json"}
    return told if isinstance(told, dict) else {"code": "no_object"}


def _result(call: str, status: int, answer: Answer) -> str:
    if status == 0:
        return "no_answer"
    if status == _CREATED:
        return "created"
    if call == "view" and status == _OK:
        return "shown"
    return str(answer.get("result") or answer.get("code") or status)
