"""The HTTP client of the demo: calls through the gateway as any user, with the latencies of opens."""

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import aiohttp

from errors import Unavailable
from runtime.retry_budget import RetryBudget

ATTEMPTS = 5
CALL_S = 15.0
MAX_CONNECTIONS = 500
"""The largest group, one connection for each member."""


class DemoClient:
    """`token` returns a user's bearer token. `results` counts opens by result, `latencies_ms` has each attempt."""

    def __init__(self, url: str, token: Callable[[str], str]) -> None:
        self._url = url
        self._token = token
        self._tokens: dict[str, str] = {}
        self._session: aiohttp.ClientSession | None = None
        self._budget = RetryBudget()
        self.results: Counter[str] = Counter()
        self.latencies_ms: list[float] = []

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS), timeout=aiohttp.ClientTimeout(total=CALL_S)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def create(self, sender: str, **body: Any) -> dict[str, Any]:
        """Create an envelope under a new Idempotency-Key; returns the gateway's JSON."""
        answer = await self._call("POST", "/v1/envelopes", sender, body, {"Idempotency-Key": uuid.uuid4().hex})
        return self._expect(answer, 201)

    async def create_if_funded(self, sender: str, **body: Any) -> dict[str, Any] | None:
        """As `create`; None if the sender's wallet does not hold as much."""
        answer = await self._call("POST", "/v1/envelopes", sender, body, {"Idempotency-Key": uuid.uuid4().hex})
        return None if answer[1].get("code") == "insufficient_funds" else self._expect(answer, 201)

    async def open(self, user: str, envelope: dict[str, Any], **body: Any) -> dict[str, Any]:
        """Open; a 503 or 504 (busy, unknown outcome) is repeated after Retry-After. Returns the last JSON.

        ATTEMPTS times in all, as long as the client's budget of retries lasts.
        """
        payload = {"share_token": envelope.get("share_token"), **body}
        path = f"/v1/envelopes/{envelope['envelope_id']}/open"
        self._budget.sent()
        for attempt in range(1, ATTEMPTS + 1):
            started = time.perf_counter()
            status, answer, wait_s = await self._send("POST", path, user, payload)
            self.latencies_ms.append(1000 * (time.perf_counter() - started))
            result = str(answer.get("result") or answer.get("code"))
            self.results[result] += 1
            if status not in (503, 504) or attempt == ATTEMPTS or not self._budget.may_retry():
                break
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret
        return answer

    async def cancel(self, sender: str, envelope: dict[str, Any]) -> dict[str, Any]:
        """Cancel as `sender`; returns the envelope's state."""
        return self._expect(await self._call("POST", f"/v1/envelopes/{envelope['envelope_id']}/cancel", sender, {}))

    async def detail(self, user: str, envelope: dict[str, Any]) -> dict[str, Any]:
        """Return the envelope's state as `user` sees it, with all claims."""
        headers = {"X-Share-Token": envelope["share_token"]}
        path = f"/v1/envelopes/{envelope['envelope_id']}"
        state = page = self._expect(await self._call("GET", path, user, None, headers))
        while page.get("next_cursor") is not None:
            following = f"{path}?cursor={page['next_cursor']}"
            page = self._expect(await self._call("GET", following, user, None, headers))
            state["claims"] += page["claims"]
        return state

    async def waiting(self, user: str) -> list[dict[str, Any]]:
        """Return the envelopes that name `user` and wait for them, newest first."""
        answer = await self._call("GET", "/v1/me/envelopes?role=waiting&limit=50", user, None)
        return list(self._expect(answer)["items"])

    async def balance(self, user: str) -> int:
        """Return the balance of `user` in fen."""
        return int(self._expect(await self._call("GET", "/v1/me/wallet", user, None))["balance_fen"])

    async def _call(
        self, method: str, path: str, user: str, body: dict[str, Any] | None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        status, answer, _ = await self._send(method, path, user, body, headers)
        return status, answer

    async def _send(
        self, method: str, path: str, user: str, body: dict[str, Any] | None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any], float]:
        """Return status, JSON and the seconds of Retry-After (0 without it)."""
        if self._session is None:
            raise Unavailable("not_started", "use `async with` on the client")
        if user not in self._tokens:
            self._tokens[user] = self._token(user)
        bearer = {"Authorization": f"Bearer {self._tokens[user]}", **(headers or {})}
        async with self._session.request(method, self._url + path, json=body, headers=bearer) as response:
            wait_s = float(response.headers.get("Retry-After", 0))
            return response.status, await response.json(content_type=None), wait_s

    @staticmethod
    def _expect(answer: tuple[int, dict[str, Any]], status: int = 200) -> dict[str, Any]:
        if answer[0] != status:
            raise Unavailable("demo_failed", f"the gateway answered {answer[0]}: {answer[1].get('detail', answer[1])}")
        return answer[1]
