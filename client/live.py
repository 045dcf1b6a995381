"""The stream of what happens to envelopes: server-sent events, begun again whenever a stream ends."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Final

import aiohttp
import msgspec

from .calls import Named, id_of, live_path
from .connection import Connection
from .errors import (
    NOT_THE_APIS,
    ApiError,
    Frozen,
    InvalidRequest,
    NotAllowed,
    NotFound,
    NotSignedIn,
    OutcomeUnknown,
    TryLater,
    error_of,
    no_answer,
    unreachable,
)
from .models import Change
from .tokens import Bearer

SILENT_S: Final = 45.0
"""A stream on which nothing comes for so long is dead: the gateway writes a comment every 15 s."""
CONNECT_S: Final = 10.0
RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 15.0
AGAIN_S: Final = 5.0
"""After so long an envelope is asked for again that could not be watched beside the others."""
LONGEST_ASKED_S: Final = 300.0
"""A gateway asks for seconds; whatever asks for more, as a proxy may, is asked again after so long."""
MOST_EVENT_BYTES: Final = 1_000_000
_LONGEST_NUMBER: Final = 9
"""Digits of a pause in milliseconds that are read."""
_FOR_GOOD: Final[dict[str, type[ApiError]]] = {
    "invariant_broken": Frozen,
    "not_found": NotFound,
    "not_invited": NotAllowed,
    "share_id_invalid": NotFound,
    "unknown_slot": NotFound,
    "impossible_day": NotFound,
    "future_envelope_id": NotFound,
    "malformed_envelope_id": InvalidRequest,
}
"""Refusals of one of several envelopes that waiting does not change; any other is asked again."""


class _Refusal(msgspec.Struct, frozen=True):
    envelope: str
    code: str
    detail: str = ""


class _End(msgspec.Struct, frozen=True):
    reason: str = ""


@contextlib.contextmanager
def _as_no_answer() -> Iterator[None]:
    try:
        yield
    except NOT_THE_APIS as error:
        raise no_answer(error) from error


class Event(msgspec.Struct, frozen=True):
    """A server-sent event. `retry_ms` is how long to wait once the stream has ended, if it says so."""

    name: str
    data: bytes
    id: str
    retry_ms: int | None


class EventReader:
    """Reads `text/event-stream` (WHATWG HTML, 9.2.6), whatever pieces it comes in."""

    def __init__(self) -> None:
        self._rest = b""
        self._begin()

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that are whole now; raises ValueError if one has no end."""
        text = self._rest + piece
        # A CR at the end may be half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = text.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + held
        events = []
        for line in lines:
            if line:
                self._take(line)
            elif self._data or self._retry_ms is not None:
                events.append(Event(self._name, b"\n".join(self._data), self._id, self._retry_ms))
                self._begin()
            else:
                self._begin()
        if self._size + len(self._rest) > MOST_EVENT_BYTES:
            raise ValueError(f"an event of the stream has more than {MOST_EVENT_BYTES} bytes")
        return events

    def _begin(self) -> None:
        self._name, self._id = "message", ""
        self._retry_ms: int | None = None
        self._data: list[bytes] = []
        self._size = 0

    def _take(self, line: bytes) -> None:
        self._size += len(line)
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._name = value.decode(errors="replace")
            case b"id":
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit():
                self._retry_ms = int(value[:_LONGEST_NUMBER])


class Watch:
    """One consumer's stream; `changes` goes on until no change of any envelope follows (`Change.complete`)."""

    def __init__(self, connection: Connection, bearer: Bearer, envelopes: tuple[Named, ...]) -> None:
        if not envelopes:
            raise ValueError("watch needs an envelope at least: watch(envelope), or watch(*envelopes) of a list")
        self._connection = connection
        self._bearer = bearer
        self._open = {id_of(one): one for one in envelopes}
        """Those of which changes follow, by ID: one that is named twice is watched once."""
        self._seen: dict[str, Change] = {}
        """The last change of each, by ID."""
        self._last_id = ""
        self._retry_s = RETRY_S
        self._again_at: float | None = None
        """When to begin anew, because one of several envelopes could not be watched just then (monotonic time)."""
        self._begun = False
        """Whether the gateway has accepted the stream that was asked for last."""
        self._accepted = False
        """Whether it has ever accepted one."""
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Yield how each envelope is, then each change; end after the last one of all.

        Raises what refuses for good, and what the first stream fails with once the client's patience ends. All else, an
        end of the stream above all, is waited out and begun again.
        """
        wait_s, rejected = self._retry_s, ""
        first_at, failures = time.monotonic(), 0
        while self._open:
            self._begun, self._again_at = False, None
            try:
                async with contextlib.aclosing(self._stream(rejected)) as stream:
                    async for told in stream:
                        change = self._news(told)
                        if told.complete:
                            self._open.pop(told.envelope_id, None)
                        if change is not None:
                            yield change
                        if not self._open:
                            return
                wait_s, rejected = self._retry_s, ""
            except NotSignedIn:
                # A token that was good has ended. One that is refused at once, though it is new, stays refused.
                if not self._bearer.renewable or (rejected and not self._begun):
                    raise
                wait_s, rejected = self._retry_s, await self._bearer.header()
            except (TryLater, OutcomeUnknown) as error:
                failures += 1
                patience_s = self._connection.patience.wait_s(error, failures, time.monotonic() - first_at)
                # Before the first one nobody knows whether there is a gateway at all.
                if not self._accepted and patience_s is None:
                    raise
                before_s = self._retry_s if self._begun else wait_s
                asked_s = min(error.retry_after_s, LONGEST_ASKED_S)
                wait_s = max(asked_s, min(LONGEST_RETRY_S, 2 * before_s)) if self._accepted else patience_s or 0.0
                rejected = "" if self._begun else rejected
            await asyncio.sleep(wait_s * random.uniform(1.0, 1.5))  # noqa: S311 - jitter, no secret

    async def _stream(self, rejected: str) -> AsyncGenerator[Change, None]:
        bearer = await (self._bearer.renew(rejected) if rejected else self._bearer.header())
        headers = {"Authorization": bearer, "Accept": "text/event-stream"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        reader = EventReader()
        url = self._connection.url + live_path(tuple(self._open.values()))
        try:
            async with self._connection.session.get(
                url, headers=headers, timeout=self._timeout, allow_redirects=False, raise_for_status=False
            ) as answer:
                if answer.status != 200:  # noqa: PLR2004 - HTTP
                    asked = answer.headers.get("Retry-After")
                    raise error_of(answer.status, await answer.read(), asked, answer.headers.get("X-Request-Id", ""))
                self._begun = self._accepted = True
                while piece := await self._next_piece(answer.content):
                    with _as_no_answer():
                        events = reader.feed(piece)
                    for event in events:
                        with _as_no_answer():
                            change = self._read(event)
                        if change is not None:
                            yield change
        except aiohttp.ClientConnectorError as error:
            raise unreachable(error, self._connection.url) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error) from error

    def _news(self, told: Change) -> Change | None:
        """Return what of a change is new: a stream that begins anew tells the newest claims again.

        Nothing is of one that is behind what was told, as by a server that another one has replaced meanwhile.
        """
        seen = self._seen.get(told.envelope_id)
        if seen is not None and told.claimed_count < seen.claimed_count and not told.complete:
            return None
        self._seen[told.envelope_id] = told
        if seen is None:
            return told
        claims = [one for one in told.claims if one.seq >= seen.claimed_count]
        if not claims and msgspec.structs.replace(told, claims=seen.claims) == seen:
            return None
        return msgspec.structs.replace(told, claims=claims)

    async def _next_piece(self, content: aiohttp.StreamReader) -> bytes:
        """Return what comes next; nothing at the end, or once it is time to ask for what was refused just then."""
        if self._again_at is None:
            return await content.readany()
        try:
            async with asyncio.timeout(max(0.0, self._again_at - time.monotonic())):
                return await content.readany()
        except TimeoutError:
            return b""

    def _read(self, event: Event) -> Change | None:
        if event.retry_ms is not None:
            self._retry_s = min(event.retry_ms / 1000, LONGEST_ASKED_S)
        if event.name == "envelope":
            self._last_id = event.id or self._last_id
            return msgspec.json.decode(event.data, type=Change)
        if event.name == "refused":
            told = msgspec.json.decode(event.data, type=_Refusal)
            if (kind := _FOR_GOOD.get(told.code)) is not None:
                raise kind(told.code, told.detail, envelope=told.envelope)
            # It is not in this stream; the others are.
            self._again_at = time.monotonic() + AGAIN_S
        if event.name == "end" and msgspec.json.decode(event.data, type=_End).reason == "token_expired":
            raise NotSignedIn("token_expired", "the token of this stream has ended")
        return None
