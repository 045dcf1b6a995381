"""Calls of one webhook."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

from errors import Refused
from events.event import BATCH_CONTENT_TYPE, USER_AGENT, Event
from events.limits import BODY_S, CALL_S, LANES
from events.outcome import Failed, one_line
from events.register import Target
from events.webhook.addresses import PRIVATE, PublicResolver, is_public
from events.webhook.signing import key_of, signature
from wire.cloud_events import CONTENT_TYPE

GONE = 410
_READ = 64 << 10


class Webhook:
    """Sends one event a call, or a batch as a JSON array where the sink takes several (`Target.batch`)."""

    def __init__(self, target: Target) -> None:
        check_url(target.address, private_addresses=target.private_addresses)
        self.target = target
        resolver = None if target.private_addresses else PublicResolver()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=LANES, resolver=resolver, ttl_dns_cache=60, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=CALL_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def send(self, events: Sequence[Event]) -> Failed | None:
        """Send events; None once the receiver has answered 2xx."""
        if self.target.batch == 1:
            (event,) = events
            return await self._call(event.id, event.body, CONTENT_TYPE)
        body = b"[" + b",".join(event.body for event in events) + b"]"
        # A repeat of the same events has the same ID.
        named = hashlib.sha256(" ".join(event.id for event in events).encode()).hexdigest()[:32]
        return await self._call(f"batch_{named}", body, BATCH_CONTENT_TYPE)

    def retarget(self, target: Target) -> None:
        """Go on with other secrets of the same target."""
        self.target = target

    async def close(self) -> None:
        """Close connections."""
        await self._http.close()

    async def _call(self, message_id: str, body: bytes, content_type: str) -> Failed | None:
        at = int(time.time())
        headers = {
            "Content-Type": content_type,
            "User-Agent": USER_AGENT,
            "webhook-id": message_id,
            "webhook-timestamp": str(at),
            "webhook-signature": signature(self._keys(), message_id, at, body),
        }
        try:
            # A redirect could lead anywhere; the operator names the address that is called.
            async with self._http.post(
                URL(self.target.address), data=body, headers=headers, allow_redirects=False
            ) as answer:
                failure = _failure(answer)
                # The status says it all. Without the body the connection could not be used again.
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                    async with asyncio.timeout(BODY_S):
                        await answer.content.read(_READ)
                return failure
        except TimeoutError:
            return Failed(f"the receiver did not answer within {CALL_S:.0f} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Failed(one_line(f"the receiver was not reached: {_cause(error)}"))

    def _keys(self) -> list[bytes]:
        until = self.target.old_secrets_until
        old = until is not None and datetime.now(UTC) < until
        return [key_of(one) for one in (self.target.secrets if old else self.target.secrets[:1])]


def check_url(address: str, *, private_addresses: bool) -> None:
    """Raise Refused `address_invalid` unless a webhook may be sent to this URL."""
    try:
        url = URL(address)
        host = url.host
    except ValueError as error:
        raise Refused("address_invalid", f"{address[:100]!r} is no URL: {error}") from error
    if url.scheme not in ("http", "https") or not host:
        raise Refused(
            "address_invalid",
            f"{address[:100]!r} is no receiver's URL; a webhook's begins with https://, a NATS stream's with nats://",
        )
    if url.user or url.password:
        raise Refused("address_invalid", "a webhook's URL has no user and no password: its calls are signed")
    if url.fragment:
        raise Refused("address_invalid", "a webhook's URL has no fragment (#…): it is not sent")
    if private_addresses:
        return
    if url.scheme != "https":
        raise Refused(
            "address_invalid",
            "http:// sends users' data readable by others; use https://, or --private within your own network",
        )
    try:
        public = is_public(host)
    except ValueError:
        return  # a name: what it resolves to is looked at with each connection
    if not public:
        raise Refused("address_private", f"{host}: {PRIVATE}")


def _failure(answer: aiohttp.ClientResponse) -> Failed | None:
    status = answer.status
    if 200 <= status < 300:  # noqa: PLR2004 - success in HTTP
        return None
    if status == GONE:
        return Failed("the receiver answered 410 Gone: it wants no events any more", gone=True)
    if 300 <= status < 400:  # noqa: PLR2004 - redirects in HTTP
        return Failed(f"the receiver answered {status}, a redirect, which is not followed; change the sink's address")
    return Failed(one_line(f"the receiver answered {status} {answer.reason or ''}"), _retry_after_s(answer))


def _cause(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        return f"no answer that is HTTP: {error.message}"  # in its words there would be the URL, which may hold a token
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return str(cause) or type(cause).__name__


def _retry_after_s(answer: aiohttp.ClientResponse) -> float:
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):  # no date, or one with numbers that no date has
        return 0.0
