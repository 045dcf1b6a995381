"""Sends calls with aiohttp, repeats them as the gateway asks, and reads the answers."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import aiohttp

from .calls import Call, settled
from .errors import ApiError, NotSignedIn, OutcomeUnknown, Unreachable, no_answer, unreachable
from .retries import Patience, RetryBudget
from .tokens import Bearer

T = TypeVar("T")
_EXPIRED: Final = frozenset({"token_expired", "token_invalid"})
"""Why a token is asked for anew: it has ended, or its key is no longer in use."""


@dataclass(frozen=True)
class Attempt:
    """One request and how it went. `code` is the error's, empty if there was none, `canceled` if the caller gave up."""

    method: str
    path: str
    number: int
    """1 is the first."""
    seconds: float
    code: str


class Connection:
    """One session to a gateway, and what all calls over it share."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        patience: Patience,
        budget: RetryBudget,
        on_attempt: Callable[[Attempt], None] | None,
    ) -> None:
        self.url = url.rstrip("/")
        self.session = session
        self.patience = patience
        self._budget = budget
        self._on_attempt = on_attempt
        self._timeout = aiohttp.ClientTimeout(total=patience.attempt_s)
        # The gateway does not begin a request that nobody waits for any more.
        self._wait_ms = str(int(1000 * patience.attempt_s))

    async def send(self, call: Call[T], bearer: Bearer | None = None) -> T:
        """Return the call's value; raises ApiError once the gateway refuses for good, or patience ends."""
        began, number, renewed, unknown = time.monotonic(), 0, False, False
        headers = {**call.headers, "X-Request-Timeout-Ms": self._wait_ms}
        if bearer is not None:
            headers["Authorization"] = await bearer.header()
        self._budget.sent()
        while True:
            number += 1
            try:
                return await self._once(call, headers, number)
            except ApiError as refused:
                error = refused
            unknown |= isinstance(error, OutcomeUnknown) and not isinstance(error, Unreachable)
            if isinstance(error, NotSignedIn) and bearer is not None and not renewed:
                renewed = bearer.renewable and error.code in _EXPIRED
                if renewed:
                    headers["Authorization"] = await _renewed(bearer, headers["Authorization"], call, unknown=unknown)
                    continue
            wait_s = self.patience.wait_s(error, number, time.monotonic() - began)
            if wait_s is None or not self._budget.may_retry():
                raise settled(error, call, unknown=unknown)
            await asyncio.sleep(wait_s)

    async def _once(self, call: Call[T], headers: dict[str, str], number: int) -> T:
        began, code = time.perf_counter(), "canceled"
        try:
            async with self.session.request(
                call.method,
                self.url + call.path,
                data=call.body or None,
                headers=headers,
                timeout=self._timeout,
                raise_for_status=False,  # also of a session that would: the body says what the refusal is
                allow_redirects=False,  # the API has none, and a token goes to nobody else
            ) as response:
                # Inside: an answer that breaks off is none.
                value = call.read(response.status, response.headers, await response.read())
                code = ""
                return value
        except ApiError as error:
            code = error.code
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            unsent = isinstance(error, aiohttp.ClientConnectorError)
            refused = unreachable(error, self.url) if unsent else no_answer(error)
            code = refused.code
            raise refused from error
        finally:
            if self._on_attempt is not None:
                self._on_attempt(Attempt(call.method, call.path, number, time.perf_counter() - began, code))


async def _renewed(bearer: Bearer, rejected: str, call: Call[Any], *, unknown: bool) -> str:
    """Return another token's header; if there is none, what the call ended with says whether it may have been done."""
    try:
        return await bearer.renew(rejected)
    except ApiError as refused:
        raise settled(refused, call, unknown=unknown) from refused
    except Exception as error:
        if not unknown or call.method != "POST":
            raise
        why = f"an earlier attempt of this request had no answer, and there is no token to repeat it with: {error!r}"
        raise settled(OutcomeUnknown("no_answer", why), call, unknown=True) from error
