"""Logging in to Postgres: the password is proven, never sent, and only a server that knows it too is believed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import uvloop

from errors import Unavailable
from runtime import postgres
from runtime.postgres import Session
from runtime.postgres.scram_only import MAX_ITERATIONS, ScramOnly
from tests.conftest import Databases

PASSWORD = "0123456789abcdef0123456789abcdef"
WAIT_S = 10.0


def auth(kind: int, more: bytes = b"") -> bytes:
    return b"R" + (8 + len(more)).to_bytes(4) + kind.to_bytes(4) + more


READY = b"S" + (4 + 20).to_bytes(4) + b"server_version\x0016.0\x00" + b"Z" + (5).to_bytes(4) + b"I"
ASKED = {
    "clear text": auth(3),
    "MD5": auth(5, b"salt"),
    "nothing": auth(0) + READY,
    "GSS": auth(7),
    "SASL of another kind, then clear text": auth(10, b"SCRAM-SHA-256\0\0") + auth(3),
    "SASL, then nothing": auth(10, b"SCRAM-SHA-256\0\0") + auth(0) + READY,
    "no login at all": READY,
}


class FakePostgres:
    """A stranger on the port of a Postgres: asks for a login of its choice, and notes what it is told after that."""

    def __init__(self, asked: bytes) -> None:
        self._asked = asked
        self.heard = b""
        self.port = 0

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            yield f"postgresql://hongbao_setnode:{PASSWORD}@127.0.0.1:{port}/hongbao"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            size = int.from_bytes(await reader.readexactly(4))
            first = await reader.readexactly(size - 4)
            if size == 8:  # a request for TLS
                writer.write(b"N")
                size = int.from_bytes(await reader.readexactly(4))
                first = await reader.readexactly(size - 4)
            assert b"hongbao_setnode" in first
            writer.write(self._asked)
            async with asyncio.timeout(WAIT_S):
                while data := await reader.read(4096):
                    self.heard += data
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.mark.parametrize("asked", ASKED)
async def test_a_server_that_wants_anything_but_scram_is_told_nothing(asked: str) -> None:
    """Attack 7: who asks for the password, its MD5 or none at all is told nothing, and counts as a Postgres away."""
    fake, complaints = FakePostgres(ASKED[asked]), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with fake.listening() as dsn:
        with pytest.raises(Unavailable, match=r"we log in by scram-sha-256 only; nothing was sent") as caught:
            await postgres.connect(dsn)
        assert caught.value.code == "database_unavailable"
        assert PASSWORD not in caught.value.detail
        session = Session(dsn)
        with pytest.raises(Unavailable):
            await session.run(lambda connection: connection.fetchval("SELECT 1"), WAIT_S)
    assert PASSWORD.encode() not in fake.heard
    assert b"md5" not in fake.heard
    assert b"SELECT" not in fake.heard
    assert complaints == []
    if "SASL" not in asked:
        assert fake.heard == b""


async def test_a_server_cannot_keep_a_process_hashing() -> None:
    """A stranger who names a billion rounds is refused at once; the loop goes on."""
    nonce = b"r=" + b"x" * 40
    fake = FakePostgres(auth(10, b"SCRAM-SHA-256\0\0") + auth(11, nonce + b",s=c2FsdHNhbHQ=,i=1000000000"))
    async with fake.listening() as dsn, asyncio.timeout(WAIT_S):
        with pytest.raises(Unavailable, match=f"1000000000 rounds of hashing; at most {MAX_ITERATIONS}"):
            await postgres.connect(dsn)


async def test_after_the_login_asyncpg_reads_by_itself(databases: Databases) -> None:
    """A login at a real server works, in any cut of the stream, and costs nothing per statement."""
    dsn = await databases.empty()
    async with postgres.connected(dsn) as connection:
        assert await connection.fetchval("SELECT 1") == 1
        guard = connection._protocol
        assert isinstance(guard, ScramOnly)
        # The instance has asyncpg's own method in place of the guard's.
        assert "data_received" in vars(guard)
    with pytest.raises(postgres.LoginRefused, match="password authentication failed"):
        await postgres.connect(_with_password(dsn, "wrong"))


async def test_it_stands_aside_on_the_loop_of_our_processes_too(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With uvloop, which remembers the method that takes what comes, it is asyncpg's own after the login."""
    dsn = await databases.empty()
    calls, whole = [], ScramOnly.data_received

    def counted(self: ScramOnly, data: bytes) -> None:
        calls.append(len(data))
        whole(self, data)

    monkeypatch.setattr(ScramOnly, "data_received", counted)

    async def ask() -> int:
        async with postgres.connected(dsn) as connection:
            logged_in = len(calls)
            for _ in range(20):
                assert len(await connection.fetchval("SELECT repeat('x', 1000000)")) == 1_000_000
            return len(calls) - logged_in

    assert await asyncio.to_thread(uvloop.run, ask()) == 0


async def test_a_login_that_comes_byte_by_byte_is_read_as_one(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How the network cuts the messages changes nothing."""
    whole = ScramOnly.data_received

    def cut(self: ScramOnly, data: bytes) -> None:
        for at in range(len(data)):
            if "data_received" in vars(self):
                self.data_received(data[at:])
                return
            whole(self, data[at : at + 1])

    monkeypatch.setattr(ScramOnly, "data_received", cut)
    async with postgres.connected(await databases.empty()) as connection:
        assert await connection.fetchval("SELECT 2") == 2


def _with_password(dsn: str, password: str) -> str:
    login, _, rest = dsn.rpartition("@")
    return f"{login.rpartition(':')[0]}:{password}@{rest}"
