"""One client's stream: takes the connection over from its `Connection`, writes events, and never keeps a backlog.

A `Connection` holds parser, queue and task, 5 KB that a stream does not need. So the transport gets this protocol in
its place.
"""

import asyncio
import random
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, Protocol

from gateway.http.sockets import forget_unsent
from gateway.limits import (
    LIVE_AGE_S,
    LIVE_BEAT_S,
    LIVE_RETRY_MS,
    LIVE_UNSENT_BYTES,
    TAKE_S,
)
from gateway.live.events import BEAT, end_event, head


class Ends(StrEnum):
    """Why a stream ends."""

    TOKEN_EXPIRED = "token_expired"  # noqa: S105 - no password
    """The client needs a new token."""
    AGE = "age"
    """It has lasted long enough: connections should spread over gateways."""
    LEAVING = "leaving"
    """The gateway goes away."""


class Hub(Protocol):
    """What a stream needs of `gateway.live.hub.Hub`."""

    def last_event(self, envelope_id: int) -> bytes:
        """Return the event told last of an envelope; empty if there is none."""

    def remove(self, one: "Watcher") -> None:
        """Forget a stream."""


class Watcher(asyncio.Protocol):
    """One stream. It is counted among the connections (`gateway.connection_bounds.Held`)."""

    __slots__ = (
        "_behind_since", "_ended_at", "_hub", "_lost", "_paused", "_refusals", "_transport", "address", "asked",
        "beat_at", "began", "began_at", "ends_at", "ends_why", "envelopes", "idle_since", "pending", "user",
    )  # fmt: skip

    kept_s: Final = float("inf")
    serving: Final = True
    """It is never idle: to make room others are ended, and it ends by `look`."""

    def __init__(
        self,
        hub: Hub,
        user: str,
        envelopes: dict[int, bool],
        first: dict[int, bytes],
        refusals: bytes,
        token_s: float,
    ) -> None:
        """`envelopes`: those that are watched, and whether the share token was right; `first`: their first events.

        `refusals`: the events of others, which may not be watched. `token_s`: for how long the token is good.
        """
        self._hub = hub
        self.user = user
        self.envelopes = envelopes
        self.pending: dict[int, bytes | None] = dict(first)
        """What is to be sent once the client reads, by envelope: an event, or None for the last one of it."""
        self._refusals = refusals
        self._transport: asyncio.Transport | None = None
        self._lost: Callable[[Any], None] | None = None
        self._paused = False
        self._behind_since: float | None = None
        """Since when it has not read all that there was for it."""
        self._ended_at: float | None = None
        """When it was told that it ends."""
        age_s = random.uniform(0.5, 1.0) * LIVE_AGE_S  # noqa: S311 - no secret
        self.idle_since = now = asyncio.get_running_loop().time()
        self.ends_at, self.ends_why = (
            (now + token_s, Ends.TOKEN_EXPIRED) if token_s < age_s else (now + age_s, Ends.AGE)
        )
        self.beat_at = now + LIVE_BEAT_S
        self.address = ""
        self.asked, self.began = True, False
        self.began_at: float | None = None

    def begin(self, transport: asyncio.Transport, address: str, headers: bytes, lost: Callable[[Any], None]) -> None:
        """Take a connection over, with these lines in its head; `lost` is called when it has ended."""
        self._transport, self.address, self._lost = transport, address, lost
        transport.set_write_buffer_limits(high=LIVE_UNSENT_BYTES)
        transport.set_protocol(self)
        transport.write(head(headers, LIVE_RETRY_MS) + self._refusals)
        self._refusals = b""
        self._send_pending()

    def send(self, envelope_id: int, event: bytes) -> None:
        """Write an event; a client that does not read misses it, and gets the last one once it reads again."""
        if self._paused:
            self.pending[envelope_id] = None
        elif self._transport is not None and self._ended_at is None:
            self._transport.write(event)

    def look(self, now: float) -> None:
        """Write a beat, or end the stream, if it is time."""
        behind = self._behind_since
        if (self._ended_at is not None and now - self._ended_at > TAKE_S) or (behind and now - behind > TAKE_S):
            self.hang_up()
        elif now >= self.ends_at and self._ended_at is None:
            self.end(self.ends_why)
        elif now >= self.beat_at:
            self.beat_at = now + LIVE_BEAT_S
            if not self._paused and self._transport is not None and self._ended_at is None:
                self._transport.write(BEAT)

    def end(self, reason: Ends) -> None:
        """Say why the stream ends, and end it; a client that does not read is ended at once."""
        transport = self._transport
        if transport is None or self._ended_at is not None:
            return
        if self._paused:
            self.hang_up()
            return
        self._ended_at = asyncio.get_running_loop().time()
        # In a random while: those who are ended together do not come back together.
        transport.write(end_event(reason, random.randint(LIVE_RETRY_MS, 5 * LIVE_RETRY_MS)))  # noqa: S311 - no secret
        transport.close()

    def retire(self) -> None:
        """End it: the gateway goes away."""
        self.end(Ends.LEAVING)

    def hang_up(self) -> None:
        """End it at once."""
        if self._transport is not None:
            forget_unsent(self._transport)
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Drop what a client sends behind its request: nothing is asked on a stream."""

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._paused = True
        if self._behind_since is None:
            self._behind_since = asyncio.get_running_loop().time()

    def resume_writing(self) -> None:
        """Go on with what was missed."""
        self._paused = False
        self._send_pending()

    def _send_pending(self) -> None:
        """Write what waits, until the client must read first."""
        pending, transport = self.pending, self._transport
        while pending and not self._paused and transport is not None and self._ended_at is None:
            envelope_id, event = pending.popitem()
            transport.write(event or self._hub.last_event(envelope_id))
        if not pending and not self._paused:
            self._behind_since = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the stream."""
        del exc
        self._transport = None
        self._hub.remove(self)
        if self._lost is not None:
            self._lost(self)
            self._lost = None
