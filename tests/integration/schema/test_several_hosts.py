"""A DSN with several hosts: the one that takes writes is found beside hosts that are gone, silent or standbys."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from errors import Unavailable
from machine import ports
from runtime import postgres
from runtime.dsn import hosts, place, with_login
from schema import roles
from tests.conftest import Databases

MOST_S = 3.0


@pytest.fixture
def silent() -> Iterator[str]:
    """A host that takes connections and says nothing, as a frozen one does."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
async def dsn(databases: Databases) -> str:
    return databases.dsn_as(await databases.empty(), roles.AUDIT)


def behind(dsn: str, *others: str) -> str:
    """Put other hosts before the one of a DSN."""
    return dsn.replace(place(dsn), ",".join([*others, place(dsn)])) + "?target_session_attrs=read-write"


async def test_a_silent_host_does_not_keep_from_the_next(dsn: str, silent: str) -> None:
    """Two that are silent and one that is gone come first: the fourth is found within the time of one."""
    several = behind(dsn, silent, f"127.0.0.1:{ports.free_port()}", silent)
    assert len(hosts(several)) == 4
    async with asyncio.timeout(MOST_S), postgres.connected(several) as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_a_session_that_only_reads_finds_the_one_that_takes_writes(dsn: str) -> None:
    """The wallet's readers begin their transactions read-only: the cluster takes writes all the same."""
    several = behind(dsn, f"127.0.0.1:{ports.free_port()}")
    async with postgres.connected(several, default_transaction_read_only="on") as connection:
        assert await connection.fetchval("SHOW transaction_read_only") == "on"


async def test_a_wrong_password_is_told_though_others_are_away(dsn: str) -> None:
    """It is no fault of a host, and no other host can cure it."""
    wrong = with_login(behind(dsn, f"127.0.0.1:{ports.free_port()}"), roles.AUDIT, "another")
    with pytest.raises(postgres.LoginRefused, match="password authentication failed"):
        await postgres.connect(wrong)


async def test_none_that_answers_is_unavailable(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence names all of them."""
    monkeypatch.setattr("runtime.postgres.connection.CONNECT_S", 0.5)
    gone = f"127.0.0.1:{ports.free_port()}"
    with pytest.raises(Unavailable) as told:
        await postgres.connect(f"postgresql://u:p@{silent},{gone}/db?target_session_attrs=read-write")
    assert silent in told.value.detail
    assert gone in told.value.detail


async def test_a_call_that_is_given_up_leaves_no_attempt(silent: str) -> None:
    """Its attempts end with it."""
    before = len(asyncio.all_tasks())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.8):
            await postgres.connect(f"postgresql://u:p@{silent},{silent},{silent}/db?target_session_attrs=read-write")
    async with asyncio.timeout(MOST_S):
        while len(asyncio.all_tasks()) > before:
            await asyncio.sleep(0.01)
