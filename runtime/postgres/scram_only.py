"""Logs in to Postgres by SCRAM-SHA-256 only: asyncpg would send the password to any server that asks for it.

A stranger on the port of a Postgres that is just restarting may ask for the password in clear text, or as MD5, and gets
it; or say "no password needed" and answer our statements itself, commits included. SCRAM proves both ends to each
other and sends no password. asyncpg has no setting for that (libpq's `require_auth`), so its protocol is replaced here,
for every connection of the process, by one that reads the messages of the login before asyncpg does. After the login
it stands aside: nothing of it runs per statement.

`PROTOCOL` below is private to asyncpg. To upgrade it, run tests/integration/schema/test_login.py.
"""

import asyncio
import re
from typing import Any, Final

import asyncpg
import asyncpg.connect_utils
import asyncpg.protocol

from errors import InvariantBroken

MAX_ITERATIONS: Final = 100_000
"""Postgres' default is 4,096, ours too. Each costs a microsecond in which the process does nothing else."""

_OK, _SASL, _SASL_CONTINUE, _SASL_FINAL = 0, 10, 11, 12
_AFTER: Final = {None: _SASL, _SASL: _SASL_CONTINUE, _SASL_CONTINUE: _SASL_FINAL, _SASL_FINAL: _OK}
"""Which authentication message must come after which."""
_ASKS: Final = {_OK: "for no password", 3: "for the password in clear text", 5: "for the password as MD5"}
_iterations = re.compile(rb"(?:^|,)i=([0-9]{1,10})$")

PROTOCOL: Final[Any] = asyncpg.protocol.Protocol


class ScramOnly(PROTOCOL):  # type: ignore[misc]
    """asyncpg's protocol behind a guard, which ends with the login."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._read = b""
        self._last: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Keep the transport: asyncpg's own attribute cannot be seen from Python."""
        self._line = transport
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what the server sends while the login goes as it must; else fail the login, and send nothing."""
        if self._last == _OK:
            super().data_received(data)
            return
        self._read += data
        while len(self._read) > 4:  # noqa: PLR2004 - the type and the length of a message
            length = 1 + int.from_bytes(self._read[1:5])
            if len(self._read) < length:
                return
            message, self._read = self._read[:length], self._read[length:]
            wrong = self._wrong(message)
            if wrong:
                # As the server itself would say it: asyncpg then gives up, with this sentence.
                super().data_received(_refusal(wrong))
                self._line.abort()
                return
            super().data_received(message)
            if self._last == _OK:
                # From here on asyncpg's own method is called, not this one. uvloop looks it up when it is told its
                # protocol, asyncio at each call.
                self.data_received = super().data_received  # type: ignore[method-assign]
                self._line.set_protocol(self)
                rest, self._read = self._read, b""
                if rest:
                    super().data_received(rest)
                return

    def _wrong(self, message: bytes) -> str:
        """Return what is wrong with a message of the login, "" if nothing is."""
        if message[:1] in (b"E", b"N"):  # an error ends the login, a notice says nothing about it
            return ""
        kind = int.from_bytes(message[5:9])
        if message[:1] != b"R" or kind != _AFTER.get(self._last):
            asks = _ASKS.get(kind, "for another login") if message[:1] == b"R" else "for no login"
            return (
                f"it asks {asks}, and we log in by scram-sha-256 only; nothing was sent. Set scram-sha-256 in "
                "pg_hba.conf, or find out who listens there"
            )
        found = _iterations.search(message) if kind == _SASL_CONTINUE else None
        if found is not None and int(found[1]) > MAX_ITERATIONS:
            return f"it asks for {int(found[1])} rounds of hashing; at most {MAX_ITERATIONS} are done"
        self._last = kind
        return ""


def _refusal(sentence: str) -> bytes:
    """Return an ErrorResponse; its class 08 says that there is no connection (`runtime.postgres.is_lost`)."""
    body = f"SFATAL\0VFATAL\0C08P01\0M{sentence}\0\0".encode()
    return b"E" + (len(body) + 4).to_bytes(4) + body


def install() -> None:
    """Make every connection of this process log in by SCRAM only."""
    if asyncpg.connect_utils.protocol is not asyncpg.protocol:
        raise InvariantBroken("scram_only", "asyncpg makes its protocol elsewhere in this version")
    asyncpg.protocol.Protocol = ScramOnly
