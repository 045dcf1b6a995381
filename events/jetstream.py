"""Publishes events to a stream of NATS JetStream: one message an event, stored when the server has acknowledged it.

The subject is `PREFIX.TYPE`, such as `hongbao.share.opened`; the header `Nats-Msg-Id` is the event's ID, by which the
server drops repeats within its window.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import NoStreamResponseError, NotFoundError

from errors import Refused, check_limit
from events.event import Event
from events.limits import CALL_S
from events.outcome import Failed, one_line
from events.register import Target
from runtime import logs
from wire.cloud_events import CONTENT_TYPE

PREFIX = "hongbao"
STREAM = "HONGBAO"
_SUBJECTS = f"{PREFIX}.>"
_CONNECT_S = 5.0
_STREAM_S = 5.0
"""A server that has not said by then whether there is the stream, or made it, has failed."""
_CLOSE_S = 2.0
_PING_S = 10
"""Between two pings: a host that is gone without a word is noticed within half a minute, not within minutes."""

check_limit(_CONNECT_S + _STREAM_S + _CLOSE_S < CALL_S, "what fails must be told before the calls that wait for it end")

_log = logs.get("events")


class JetStream:
    """One connection, made at the first call and remade by the client library.

    The library gives a connection up for ever after an error that the server sends on it, such as a password that has
    changed; the next call makes another one. A stream that is gone is looked for at the next call, and made again.
    """

    def __init__(self, target: Target) -> None:
        check_url(target.address)
        self.target = target
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._turn = asyncio.Lock()
        self._attempts = 0
        """Attempts to connect, or to find the stream, that have ended."""
        self._failure = ""
        """Why the last of these failed; "" if it did not."""
        self._noted = ""

    async def send(self, events: Sequence[Event]) -> Failed | None:
        """Publish events in this order; None once the server has stored all."""
        stream = None
        try:
            async with asyncio.timeout(CALL_S):
                stream = await self._connected()
            for event in events:
                headers = {"Nats-Msg-Id": event.id, "Content-Type": CONTENT_TYPE}
                await stream.publish(
                    f"{PREFIX}.{event.type}",
                    event.body,
                    timeout=CALL_S,
                    stream=stream_of(self.target.address),
                    headers=headers,
                )
        except Exception as error:  # noqa: BLE001 - an answer that is none leaves the library as what it met reading it
            if isinstance(error, NoStreamResponseError) and self._stream is stream:
                self._stream = None  # else another lane has looked for it meanwhile
            return Failed(one_line(f"NATS did not store the event: {self._cause(error)}"))
        return None

    def retarget(self, target: Target) -> None:
        """Go on with other secrets of the same target."""
        self.target = target

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            client, self._client = self._client, None
            await _close(client)

    async def _connected(self) -> JetStreamContext:
        """Return the stream. Of lanes that ask at the same time one connects; if it fails, so do the others, at once.

        If each of them tried, most would run out of time in the line and could not say why.
        """
        attempts = self._attempts
        async with self._turn:
            if self._stream is not None and self._client is not None and not self._client.is_closed:
                return self._stream
            if attempts != self._attempts and self._failure:
                raise ConnectionError(self._failure)
            self._failure = "the attempt was given up"
            self._stream = None  # else one of a closed connection would stay if the look for it on the next one failed
            try:
                self._stream = await self._connect_and_find()
                self._failure = ""
            except Exception as error:
                self._failure = _words(error)
                raise
            finally:
                self._attempts += 1
            return self._stream

    async def _connect_and_find(self) -> JetStreamContext:
        if self._client is not None and self._client.is_closed:
            self._client = None
        if self._client is None:
            client = Client()
            try:
                await self._connect(client, urlsplit(self.target.address)._replace(path="").geturl())
            except BaseException:
                await _close(client)
                raise
            self._client = client
        stream = self._client.jetstream(timeout=_STREAM_S)
        await _ensure_stream(stream, stream_of(self.target.address))
        return stream

    async def _connect(self, client: Client, server: str) -> None:
        """Connect; raises ConnectionError after a while, where the library, told to reconnect for ever, never ends."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                await client.connect(
                    server, name="hongbao events", connect_timeout=int(_CONNECT_S), max_reconnect_attempts=-1,
                    allow_reconnect=True, reconnect_time_wait=1, error_cb=self._note, pending_size=8 << 20,
                    ping_interval=_PING_S, max_outstanding_pings=2,
                )  # fmt: skip
        except TimeoutError as error:
            cause = client.last_error
            raise ConnectionError(f"no connection: {_words(cause) if cause else 'no answer'}") from error

    def _cause(self, error: Exception) -> str:
        """Say why a call failed; if it ran out of time while the library reconnects, why that does not succeed."""
        client = self._client
        if isinstance(error, TimeoutError) and client is not None and not client.is_connected and client.last_error:
            return f"no connection: {_words(client.last_error)}"
        return _words(error)

    async def _note(self, error: Exception) -> None:
        """Log what the library met, once; it tries again twice a second."""
        words = _words(error)
        if words != self._noted:
            self._noted = words
            _log.warning("NATS", error=words)


async def _close(client: Client) -> None:
    with contextlib.suppress(Exception):  # one that never had an address raises AssertionError
        async with asyncio.timeout(_CLOSE_S):
            await client.close()


async def _ensure_stream(stream: JetStreamContext, name: str) -> None:
    """Make the stream if there is none: in files, without a bound. One that exists is left as its owner made it."""
    try:
        async with asyncio.timeout(_STREAM_S):
            try:
                await stream.stream_info(name)
            except NotFoundError:
                await stream.add_stream(StreamConfig(name=name, subjects=[_SUBJECTS], storage=StorageType.FILE))
    except TimeoutError as error:
        raise ConnectionError(f"no answer about the stream {name}") from error


def _words(error: BaseException) -> str:
    """Say what an error says; also its type if it is neither the system's nor the library's: `'code'` says little."""
    text = str(error) or type(error).__name__
    return one_line(text if isinstance(error, NatsError | OSError) else f"{type(error).__name__}: {text}")


def check_url(address: str) -> None:
    """Raise Refused `address_invalid` unless this names a NATS server, and perhaps a stream."""
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("nats", "tls") and parts.hostname and parts.port != 0
    except ValueError:  # half an IPv6 address; a port that is none
        known = False
    if not known:
        raise Refused(
            "address_invalid", f"{address[:100]!r} is no NATS server; write nats://HOST:4222 or nats://HOST:4222/STREAM"
        )
    name = stream_of(address)
    if not name.replace("_", "").replace("-", "").isalnum():
        raise Refused("address_invalid", f"{name[:40]!r} is no stream's name: letters, digits, - and _")


def stream_of(address: str) -> str:
    """Return the stream that an address names, else the usual one."""
    return unquote(urlsplit(address).path.strip("/")) or STREAM
