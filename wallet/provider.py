"""Client of the outside payment provider, over HTTP.

The provider's contract: `POST /payments {order_no, user, amount_fen}` and `GET /payments/{order_no}`, both answer
`{"order_no", "status": "paid" | "refused" | "pending", "reason"?}`; GET of an unknown number is 404. The provider
pays an order number at most once.
"""

import asyncio
from typing import Literal

import aiohttp
import msgspec
import stamina

from runtime import logs
from runtime.unreadable import UNREADABLE
from wallet import metrics
from wallet.limits import PROVIDER_BODY_BYTES, PROVIDER_CALL_S, PROVIDER_PATIENCE_S, PROVIDER_TRIES, REASON_CHARS
from wallet.requests import PayOrder
from wire.messages import PAID, PayResult, PayStatus

_log = logs.get("wallet")
_OK, _CREATED, _ACCEPTED, _NOT_FOUND = 200, 201, 202, 404


class Payment(msgspec.Struct, frozen=True):
    """The provider's answer about one payment."""

    order_no: str
    status: Literal["paid", "refused", "pending"]
    reason: str = "provider_refused"


class InDoubt(Exception):
    """The provider's answer is missing, undecided or malformed: the payment may or may not have happened."""


_decode = msgspec.json.Decoder(Payment).decode


class Provider:
    """Pays single orders; the caller owns `session` and closes it."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/") + "/payments"
        self._timeout = aiohttp.ClientTimeout(total=PROVIDER_CALL_S)

    async def pay(self, order: PayOrder) -> PayResult:
        """Pay `order` outside and return PAID, REFUSED with the provider's reason, or UNKNOWN.

        May be called again for the same order: every attempt first looks the payment up, so one whose answer was lost,
        by this process or by one that died, is found and not ordered again.
        """
        try:
            async with asyncio.timeout(PROVIDER_PATIENCE_S):
                async for attempt in stamina.retry_context(
                    on=InDoubt, attempts=PROVIDER_TRIES, timeout=PROVIDER_PATIENCE_S, wait_initial=0.05, wait_max=0.5
                ):
                    with attempt:
                        return await self._once(order)
        except (InDoubt, TimeoutError) as doubt:
            _log.info("payment outside in doubt", order_no=order.order_no, why=str(doubt))
        return PayResult(PayStatus.UNKNOWN, "provider_in_doubt")

    async def _once(self, order: PayOrder) -> PayResult:
        payment = await self._look_up(order.order_no)
        if payment is None:
            payment = await self._order(order)
        if payment.order_no != order.order_no:
            raise InDoubt("the answer is about another order")
        if payment.status == "pending":
            raise InDoubt("the provider has not decided yet")
        return PAID if payment.status == "paid" else PayResult(PayStatus.REFUSED, _storable(payment.reason))

    async def _look_up(self, order_no: str) -> Payment | None:
        status, body = await self._call("GET", f"{self._url}/{order_no}", None)
        if status == _NOT_FOUND:
            return None
        return _read(status, body, expected=(_OK,))

    async def _order(self, order: PayOrder) -> Payment:
        wanted: dict[str, str | int] = {"order_no": order.order_no, "user": order.user, "amount_fen": order.amount_fen}
        status, body = await self._call("POST", self._url, wanted)
        return _read(status, body, expected=(_OK, _CREATED, _ACCEPTED))

    async def _call(self, method: str, url: str, body: dict[str, str | int] | None) -> tuple[int, bytes]:
        try:
            async with self._session.request(
                method, url, json=body, timeout=self._timeout, allow_redirects=False
            ) as response:
                answer = await _whole_body(response)
                metrics.provider_calls.labels(method, str(response.status)).inc()
                return response.status, answer
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            metrics.provider_calls.labels(method, "none").inc()
            raise InDoubt(f"{method}: {type(error).__name__} {error}") from error


async def _whole_body(response: aiohttp.ClientResponse) -> bytes:
    """Read the body to its end; raises InDoubt if it is longer than PROVIDER_BODY_BYTES."""
    body = b""
    # `read(n)` returns what has arrived, which may be a part.
    async for part in response.content.iter_any():
        body += part
        if len(body) > PROVIDER_BODY_BYTES:
            raise InDoubt(f"an answer of more than {PROVIDER_BODY_BYTES} bytes")
    return body


def _storable(reason: str) -> str:
    """Return the provider's words without what no database and no log takes: control characters, any length."""
    return "".join(one if one.isprintable() else "?" for one in reason[:REASON_CHARS])


def _read(status: int, body: bytes, *, expected: tuple[int, ...]) -> Payment:
    # A 4xx is not a refusal: only a decided status in a well-formed answer is final.
    if status not in expected:
        raise InDoubt(f"HTTP {status}")
    try:
        return _decode(body)
    except UNREADABLE as error:
        raise InDoubt(f"HTTP {status} with an answer that is not in the contract: {error}") from error
