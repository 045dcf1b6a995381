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
from nats.js.errors import NotFoundError

from errors import Refused
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
_CLOSE_S = 2.0
_PING_S = 10
"""Between two pings: a host that is gone without a word is noticed within half a minute, not within minutes."""

_log = logs.get("events")


class JetStream:
    """One connection, made at the first call and remade by the client library."""

    def __init__(self, target: Target) -> None:
        check_url(target.address)
        self.target = target
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._turn = asyncio.Lock()
        self._noted = ""

    async def send(self, events: Sequence[Event]) -> Failed | None:
        """Publish events in this order; None once the server has stored all."""
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
        except (NatsError, OSError, TimeoutError) as error:
            return Failed(f"NATS did not store the event: {_words(error)}")
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
        async with self._turn:
            if self._stream is None or self._client is None:
                parts = urlsplit(self.target.address)
                server = parts._replace(path="").geturl()
                client = Client()
                try:
                    await self._connect(client, server)
                    stream = client.jetstream(timeout=CALL_S)
                    await _ensure_stream(stream, stream_of(self.target.address))
                except BaseException:
                    await _close(client)
                    raise
                self._client, self._stream = client, stream
            return self._stream

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

    async def _note(self, error: Exception) -> None:
        """Log what the library met, once; it tries again twice a second."""
        words = _words(error)
        if words != self._noted:
            self._noted = words
            _log.warning("NATS", error=words)


async def _close(client: Client) -> None:
    with contextlib.suppress(NatsError, OSError, TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await client.close()


async def _ensure_stream(stream: JetStreamContext, name: str) -> None:
    """Make the stream if there is none: in files, without a bound. One that exists is left as its owner made it."""
    try:
        await stream.stream_info(name)
    except NotFoundError:
        await stream.add_stream(StreamConfig(name=name, subjects=[_SUBJECTS], storage=StorageType.FILE))


def _words(error: BaseException) -> str:
    return one_line(str(error) or type(error).__name__)


def check_url(address: str) -> None:
    """Raise Refused `address_invalid` unless this names a NATS server, and perhaps a stream."""
    parts = urlsplit(address)
    if parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise Refused(
            "address_invalid", f"{address[:100]!r} is no NATS server; write nats://HOST:4222 or nats://HOST:4222/STREAM"
        )
    name = stream_of(address)
    if not name.replace("_", "").replace("-", "").isalnum():
        raise Refused("address_invalid", f"{name[:40]!r} is no stream's name: letters, digits, - and _")


def stream_of(address: str) -> str:
    """Return the stream that an address names, else the usual one."""
    return unquote(urlsplit(address).path.strip("/")) or STREAM
