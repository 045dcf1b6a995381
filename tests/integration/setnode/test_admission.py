"""Admission: the cap over all servers of a SET, and what holds when memcached does not."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from errors import Refused, Unavailable
from machine.memcached import Memcached, MemcachedSpec
from runtime import settings
from runtime.postgres import Session
from setnode.commit import admission, lease_store
from setnode.commit.admission import Admission, AdmissionConfig
from setnode.commit.committer import Committer
from setnode.limits import HOLDER_GONE_S, LOCAL_CAP
from setnode.settings import SetnodeSettings
from tests.integration.setnode.fixtures import Town, common_town, living_town, module_databases, prove, shared_town
from wire.limits import DEADLINE_S

__all__ = ["common_town", "module_databases", "shared_town"]


@pytest_asyncio.fixture
async def server(server_folder: Path, account) -> AsyncIterator[Memcached]:
    """A memcached of this test's own, to be stopped and hung."""
    one = Memcached(MemcachedSpec("own", server_folder, server_folder / "memcached.log"), account=account)
    await one.start()
    yield one
    if one.running:
        os.kill(one.pid, signal.SIGCONT)
    await one.stop()


class Gate:
    """Admissions that stand for servers, of a SET of their own unless one of a town is named; closes them.

    They wait a second at the cap: long enough for a machine that stands still while an entry is given back.
    """

    def __init__(self, address: str, count: int = 2, set_name: str = "alone", **config) -> None:
        settings = {"cap": 3, "local_cap": 50, "wait_s": 1.0, **config}
        self.servers = [Admission(set_name, address, AdmissionConfig(**settings)) for _ in range(count)]

    def __enter__(self) -> list[Admission]:
        return self.servers

    def __exit__(self, *_: object) -> None:
        for one in self.servers:
            one.close()


def say(address: str, words: bytes) -> bytes:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(words)
        return connection.recv(4096)


def away() -> float:
    return lease_store._away._value.get()


async def test_two_servers_share_one_cap_and_never_exceed_it(memcached: str) -> None:
    """60 transactions of two servers at a cap of 3: never a fourth inside, all get in, none is left behind."""
    inside, most, entered = 0, 0, 0

    async def transaction(one: Admission) -> None:
        nonlocal inside, most, entered
        lease = await one.acquire()
        inside += 1
        most, entered = max(most, inside), entered + 1
        await asyncio.sleep(0.002)
        inside -= 1
        one.release(lease)

    with Gate(memcached, wait_s=20) as servers:
        await asyncio.gather(*(transaction(servers[n % 2]) for n in range(60)))
    assert (most, entered) == (3, 60)


async def test_at_the_cap_an_entry_is_refused_in_bounded_time(memcached: str) -> None:
    """Over the cap: wait a little, then busy with a time to retry after; a place given back is taken."""
    with Gate(memcached, cap=1) as (one, two):
        lease = await one.acquire()
        started = time.monotonic()
        with pytest.raises(Unavailable) as busy:
            await two.acquire()
        assert time.monotonic() - started < 5
        assert (busy.value.code, busy.value.outcome_known) == ("busy", True)
        assert busy.value.retry_after_s > 0
        one.release(lease)
        two.release(await two.acquire())


async def test_a_killed_holders_entry_ends_by_itself(memcached: str) -> None:
    """Nobody gives back what a killed server held: its lease expires and the cap is whole again."""
    with Gate(memcached, cap=1, lease_s=0.3, wait_s=5) as (killed, other):
        started = time.monotonic()
        await killed.acquire()
        other.release(await other.acquire())
        assert 0.25 < time.monotonic() - started < 4


async def test_a_hot_envelope_has_a_cap_of_its_own(memcached: str) -> None:
    """Two servers cannot both be inside with one hot envelope; others are free, and leaving frees it."""
    with Gate(memcached) as (one, two):
        first, second = await one.acquire(), await two.acquire()
        assert await one.acquire_hot([7, 8], first) == set()
        assert await two.acquire_hot([8, 9], second) == {8}
        assert second.hot == {9}
        one.release(first)
        async with asyncio.timeout(5):
            while await two.acquire_hot([8], second):
                await asyncio.sleep(0.005)
        two.release(second)


async def test_a_killed_holders_hot_envelope_is_taken_over(memcached: str) -> None:
    """Long before its lease ends: a crowd waits. One that gives way in time is not disturbed, nor is our own worker."""
    killed, other = (Admission("set-1", memcached, AdmissionConfig()) for _ in range(2))
    held = await killed.acquire()
    assert await killed.acquire_hot([7], held) == set()
    lease, own = await other.acquire(), await other.acquire()
    began = time.monotonic()
    while await other.acquire_hot([7], lease):
        await asyncio.sleep(0.02)
    assert time.monotonic() - began >= HOLDER_GONE_S
    assert lease.hot == {7}
    while time.monotonic() - began < 2.5 * HOLDER_GONE_S:
        assert await other.acquire_hot([7], own) == {7}
        await asyncio.sleep(0.02)
    # The holder comes back, and removes what is not there any more: the envelope stays with who has it.
    killed.release(held)
    again = await killed.acquire()
    assert await killed.acquire_hot([7], again) == {7}
    for one, leases in ((killed, [again]), (other, [lease, own])):
        for each in leases:
            one.release(each)
        one.close()


async def test_holders_that_take_turns_are_not_gone(memcached: str) -> None:
    """Others have it at each look, but never the same one for long: nobody takes it from a living server."""
    living, other = (Admission("set-1", memcached, AdmissionConfig()) for _ in range(2))
    lease = await other.acquire()
    for _ in range(int(3 * HOLDER_GONE_S / 0.1)):
        term = await living.acquire()
        while await living.acquire_hot([7], term):  # the release before is done in the background
            await asyncio.sleep(0.005)
        began = time.monotonic()
        while time.monotonic() - began < 0.1:
            assert await other.acquire_hot([7], lease) == {7}
            await asyncio.sleep(0.02)
        living.release(term)
    for one in (living, other):
        one.close()


async def test_an_acquire_that_is_cancelled_leaves_no_lease(memcached: str, monkeypatch) -> None:
    """The thread appends, and the worker is gone: its release takes the envelope back as well."""
    one = Admission("set-1", memcached, AdmissionConfig())
    lease = await one.acquire()
    append, appended = one._store.append, asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(key: str, token: str, cap: int) -> bool:
        done = append(key, token, cap)
        loop.call_soon_threadsafe(appended.set)
        time.sleep(0.2)
        return done

    monkeypatch.setattr(one._store, "append", slow)
    acquiring = asyncio.ensure_future(one.acquire_hot([7], lease))
    await appended.wait()
    acquiring.cancel()
    await asyncio.gather(acquiring, return_exceptions=True)
    monkeypatch.undo()
    one.release(lease)
    one.close()
    another = Admission("set-1", memcached, AdmissionConfig())
    fresh = await another.acquire()
    assert await another.acquire_hot([7], fresh) == set()
    another.release(fresh)
    another.close()


async def test_room_is_what_the_cap_leaves(server: Memcached) -> None:
    """A turn goes on while one more would get in: not at the cap, nor without a local entry, a lease or memcached."""
    with Gate(server.address, cap=2, local_cap=2) as (one, two):
        first = await one.acquire()
        assert await one._has_room(first)
        second = await two.acquire()
        assert not await one._has_room(first)
        two.release(second)
        async with asyncio.timeout(5):
            while not await one._has_room(first):
                await asyncio.sleep(0.005)
        await one._local.acquire()
        assert not await one._has_room(first)
        one._local.release()
        say(server.address, b"flush_all\r\n")
        assert not await one._has_room(first), "memcached knows nothing of this lease any more"
        server.kill()
        await server.wait()
        before = away()
        assert not await one._has_room(first)
        assert not await one._has_room(first)
        assert away() == before + 1, "asked once, then left alone"
        one.release(first)


async def test_a_hot_envelope_that_is_wanted_elsewhere_changes_hands(memcached: str, monkeypatch) -> None:
    """The holder hears of it at its next look, ends its turn and stays away long enough for the other to get in."""
    # Long enough for a machine that stands still in the middle of this, too.
    monkeypatch.setattr(admission, "YIELD_S", 1.0)
    with Gate(memcached) as (one, two):
        first, second = await one.acquire(), await two.acquire()
        assert await one.acquire_hot([7, 8], first) == set()
        assert await one._has_room(first)
        assert await two.acquire_hot([7], second) == {7}
        async with asyncio.timeout(5):
            while await one._has_room(first):
                await asyncio.sleep(0.005)
        one.release(first)
        first = await one.acquire()
        async with asyncio.timeout(5):
            # 8 is wanted by nobody, and to be had as soon as its own old lease is released, which runs behind.
            while await one.acquire_hot([7, 8], first) != {7}:
                await asyncio.sleep(0.005)
        async with asyncio.timeout(5):
            while await two.acquire_hot([7], second):
                await asyncio.sleep(0.005)
        assert second.hot == {7}
        assert await two._has_room(second), "nobody wants what the mark was for"
        async with asyncio.timeout(5):
            while 7 in one._yielded:
                await asyncio.sleep(0.01)
                await one._has_room(first)
        assert await one.acquire_hot([7], first) == {7}, "now it is the other's"
        two.release(second)
        async with asyncio.timeout(5):
            while await one.acquire_hot([7], first):
                await asyncio.sleep(0.005)
        one.release(first)


async def test_two_connections_of_one_server_do_not_take_it_from_each_other(memcached: str) -> None:
    """Both may come upon one hot envelope; that is no reason to leave it to another server."""
    with Gate(memcached) as (one, _):
        first, second = await one.acquire(), await one.acquire()
        assert await one.acquire_hot([7], first) == set()
        assert await one.acquire_hot([7], second) == {7}
        one.release(await one.acquire())
        for _ in range(5):
            await asyncio.sleep(0.02)
            assert await one._has_room(first)
        assert not one._yielded
        one.release(first)
        one.release(second)


class Ceaseless:
    """A queue that always has one more transaction, of some milliseconds."""

    def __init__(self) -> None:
        self.nonempty, self.backlogged = asyncio.Event(), asyncio.Event()
        self.nonempty.set()

    def hot_envelopes(self) -> list[int]:
        return []

    def next_batch(self, skip: set[int]) -> list[int]:
        return [1]

    async def write(self, connection, batch: list[int]) -> None:
        await connection.execute("SELECT pg_sleep(0.005)")

    def on_committed(self, batch: list[int], result: None) -> None:
        pass

    def on_failed(self, batch: list[int], error: Exception) -> None:
        raise error

    def on_rejected(self, error: Unavailable) -> None:
        raise AssertionError(error)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_committer_keeps_its_entry_while_nobody_can_be_waiting(
    common_town: Town, memcached: str, monkeypatch
) -> None:
    """With room the same work needs fewer entries than at the cap, where each is given back after 50 ms.

    Measured again where memcached was not heard in time meanwhile: then no entry is kept, and one not given back stays.
    """
    async with asyncio.timeout(100):
        for number in itertools.count():
            before = away()
            with_room, at_the_cap = [
                await _entries(common_town, memcached, f"keeps-{number}-{others}", others, monkeypatch)
                for others in (0, 1)
            ]
            if away() == before:
                break
    assert 1 <= with_room < at_the_cap


async def _entries(town: Town, memcached: str, set_name: str, others: int, monkeypatch) -> int:
    """Return how many entries a committer took for 300 transactions, at a cap of 2 of which `others` are taken."""
    entered: list[int] = []
    written = asyncio.Event()

    class Counted(Ceaseless):
        committed = 0

        def on_committed(self, batch: list[int], result: None) -> None:
            self.committed += 1
            if self.committed == 300:
                written.set()

    with Gate(memcached, cap=2, wait_s=20, set_name=set_name) as (one, two):
        acquire = one.acquire

        async def counted():
            entered.append(1)
            return await acquire()

        monkeypatch.setattr(one, "acquire", counted)
        leases = [await two.acquire() for _ in range(others)]
        session = Session(town.nodes[0].settings.postgres_dsn)
        await session.use()
        running = asyncio.ensure_future(Committer(Counted(), [session], one).run())
        await written.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await session.close()
        for lease in leases:
            two.release(lease)
    return len(entered)


async def test_the_local_cap_holds_while_memcached_hangs(server: Memcached) -> None:
    """A hung memcached delays the first lease by its timeout only, the alarm counts, and the local cap refuses."""
    with Gate(server.address, cap=1, local_cap=2) as (one, two):
        leases = [await one.acquire()]
        os.kill(server.pid, signal.SIGSTOP)
        before, started = away(), time.monotonic()
        leases.append(await one.acquire())
        with pytest.raises(Unavailable, match="busy"):
            await one.acquire()
        other = await two.acquire()
        assert time.monotonic() - started < 5
        assert away() >= before + 2
        for lease in leases:
            one.release(lease)
        two.release(other)


async def test_memcached_killed_and_started_again_is_used_again(server: Memcached, monkeypatch) -> None:
    """Gone, the local cap holds; back, and empty, the shared cap holds again."""
    monkeypatch.setattr(lease_store, "MEMCACHED_AWAY_S", 0.05)
    with Gate(server.address, cap=1) as (one, two):
        held = await one.acquire()
        server.kill()
        await server.wait()
        before = away()
        for gone in (one, two):
            gone.release(await gone.acquire())
        assert away() >= before + 2
        await server.start()
        await asyncio.sleep(0.1)  # MEMCACHED_AWAY_S must pass
        again = await one.acquire()
        with pytest.raises(Unavailable, match="busy"):
            await two.acquire()
        one.release(held)
        one.release(again)


@pytest.mark.parametrize("value", [b"garbage", b"\x91\xa1x", b"\x91\x92\xa1x\xa1y", b"\x05"])
async def test_foreign_bytes_in_memcached_are_as_good_as_none(memcached: str, value: bytes) -> None:
    """Whatever stands at the key, entries are given, the next write mends it, and the cap holds."""
    say(memcached, b"set hongbao:alone:inside 0 0 %d\r\n%s\r\n" % (len(value), value))
    before = away()
    with Gate(memcached, cap=1) as (one, two):
        lease = await one.acquire()
        with pytest.raises(Unavailable, match="busy"):
            await two.acquire()
        one.release(lease)
    assert away() == before


async def test_leases_that_nobody_can_have_been_given_do_not_hold_the_cap(memcached: str) -> None:
    """Eternal ones, as any client of memcached can write, are dropped; a server's own, and a near clock's, stay."""
    forged = msgspec.msgpack.encode([(f"x{n}", 4_102_444_800_000) for n in range(8)])
    say(memcached, b"set hongbao:alone:inside 0 0 %d\r\n%s\r\n" % (len(forged), forged))
    with Gate(memcached, cap=2, lease_s=5.0) as (one, two):
        lease = await one.acquire()
        two.release(await two.acquire())
        near = [("theirs", time.time_ns() // 1_000_000 + 6_000)]
        held = msgspec.msgpack.decode(one._store._client().get("hongbao:alone:inside"))
        value = msgspec.msgpack.encode([*held, *near])
        say(memcached, b"set hongbao:alone:inside 0 0 %d\r\n%s\r\n" % (len(value), value))
        with pytest.raises(Unavailable, match="busy"):
            await two.acquire()
        one.release(lease)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLAIM_CONNECTIONS", "0"),
        ("CLAIM_CONNECTIONS", str(LOCAL_CAP)),
        ("ADMISSION_CAP", "0"),
        *(("SWEEP_AFTER_S", text) for text in ("0", "-1", str(2 * DEADLINE_S), "nan", "inf")),
    ],
)
def test_settings_that_starve_creates_or_claims_are_refused(name: str, value: str) -> None:
    """A server does not start with no worker for claims, or with one for each of its leases.

    Nor with a sweeper that undoes creates which are still being tried.
    """
    fields = (
        "listen",
        "topology",
        "set",
        "server",
        "postgres_dsn",
        "memcached",
        "wallet_url",
        "link_key",
        "accept_keys",
        "password_key",
    )
    environ = {f"HONGBAO_{field.upper()}": "x" * 32 for field in fields}
    settings.load(SetnodeSettings, environ)
    with pytest.raises(Refused) as caught:
        settings.load(SetnodeSettings, {**environ, f"HONGBAO_{name}": value})
    assert caught.value.code == "settings_invalid"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_worker_without_a_lease_leaves_the_queue_to_the_one_that_drains_it(
    common_town: Town, memcached: str
) -> None:
    """Of two workers at a cap of one, the second refuses nobody; with nobody inside, those that wait hear busy."""
    rejected: list[Unavailable] = []

    class Busy(Ceaseless):
        def __init__(self) -> None:
            super().__init__()
            self.backlogged.set()
            self.may_end = asyncio.Event()

        async def write(self, connection, batch: list[int]) -> None:
            await self.may_end.wait()
            await super().write(connection, batch)

        def on_rejected(self, error: Unavailable) -> None:
            rejected.append(error)

    with Gate(memcached, count=2, cap=1, wait_s=0.1, set_name="siblings") as (own, other):
        sessions = [Session(common_town.nodes[0].settings.postgres_dsn) for _ in range(2)]
        for session in sessions:
            await session.use()
        refused = admission._refused.labels("set")._value
        before = refused.get()
        queue = Busy()
        running = asyncio.ensure_future(Committer(queue, sessions, own).run())
        async with asyncio.timeout(20):
            while refused.get() < before + 3:
                await asyncio.sleep(0.01)
            heard_beside_a_sibling = list(rejected)
            queue.may_end.set()
            lease = None
            while lease is None:
                with contextlib.suppress(Unavailable):
                    lease = await other.acquire()
            while not rejected:
                await asyncio.sleep(0.01)
        other.release(lease)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        for session in sessions:
            await session.close()
    assert heard_beside_a_sibling == []


@asynccontextmanager
async def babbler(words: bytes) -> AsyncIterator[str]:
    """Something that listens where memcached should be, and answers every command with `words`."""

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.add(writer)
        while await reader.read(4096):
            writer.write(words)

    told: set[asyncio.StreamWriter] = set()
    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in told:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in told), return_exceptions=True)


@pytest.mark.parametrize(
    "words",
    [
        b"VALUE hongbao:alone:inside 0\r\nEND\r\n",
        b"VALUE another:key 0 1 7\r\nx\r\nEND\r\n",
        b"VALUE hongbao:alone:inside zero 1 7\r\nx\r\nEND\r\n",
        b"VALUE hongbao:alone:inside 0 1 seven\r\n\x90\r\nEND\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
async def test_answers_that_cannot_be_read_are_as_good_as_none(words: bytes, monkeypatch) -> None:
    """Whatever the parser makes of them, entries are given under the local cap, given back, and the alarm counts."""
    monkeypatch.setattr(lease_store, "MEMCACHED_AWAY_S", 0.0)
    async with babbler(words) as address:
        with Gate(address, count=1, cap=1, local_cap=2) as (one,):
            before = away()
            leases = [await one.acquire(), await one.acquire()]
            assert await one.acquire_hot([7], leases[0]) == set()
            with pytest.raises(Unavailable, match="busy"):
                await one.acquire()
            assert away() >= before + 3
            for lease in leases:
                one.release(lease)
            async with asyncio.timeout(5):
                while away() < before + 6:  # three entries were given back, which nobody could read either
                    await asyncio.sleep(0.01)
            one.release(await one.acquire())


@pytest.mark.asyncio(loop_scope="module")
async def test_refused_at_the_cap_an_open_is_busy_and_nothing_is_written(common_town: Town, memcached: str) -> None:
    """While the SET is full an open hears busy and no claim stands; with room again the same open wins."""
    town = common_town
    envelope_id = await town.create(1_000, 10)
    with Gate(memcached, count=1, set_name="set-1", cap=8) as (crowd,):
        leases = [await crowd.acquire() for _ in range(8)]
        with pytest.raises(Unavailable) as busy:
            await town.open(envelope_id, "a")
        assert (busy.value.code, busy.value.retry_after_s > 0) == ("busy", True)
        assert (await town.grab(envelope_id, "a"))["result"] == "openable"
        assert await town.scalar("SELECT count(*) FROM claim") == 0
        for lease in leases:
            crowd.release(lease)
        async with asyncio.timeout(5):
            while True:
                try:
                    answer = await town.open(envelope_id, "a")
                    break
                except Unavailable:
                    await asyncio.sleep(0.01)
    assert answer["result"] == "opened"


async def test_a_create_refused_at_the_cap_says_that_its_money_may_have_gone(databases, server, tmp_path: Path) -> None:
    """The header had no entry, the money is in escrow: the outcome is unknown, and the repeat completes it once."""
    async with living_town(databases, server.address, tmp_path, admission_cap=4) as town:
        await town.deposit("ann", 500)
        args = town.create_args("ann", 500, 5, "key")
        with Gate(server.address, count=1, set_name="set-1", cap=4) as (crowd,):
            leases = [await crowd.acquire() for _ in range(4)]
            with pytest.raises(Unavailable) as busy:
                await town.caller.ask(town.nodes[0], 3, args)
            assert (busy.value.code, busy.value.outcome_known) == ("busy", False)
            for lease in leases:
                crowd.release(lease)
        say(server.address, b"flush_all\r\n")
        _, envelope_id, _ = await town.caller.ask(town.nodes[0], 3, args)
        assert await town.wallet.balance("ann") == 0
        os.kill(server.pid, signal.SIGSTOP)
        answers = await asyncio.gather(*(town.open(envelope_id, f"u{n}") for n in range(20)))
        os.kill(server.pid, signal.SIGCONT)
        assert [one["result"] for one in answers] == ["opened"] * 5 + ["sold_out"] * 15
        assert sum(one["amount_fen"] for one in answers) == 500
        other = await town.create(500, 50, sender="bob")
        say(server.address, b"flush_all\r\n")
        answers = await asyncio.gather(*(town.open(other, f"u{n}") for n in range(60)))
        assert sum(one["amount_fen"] for one in answers) == 500
        await prove(town)


def fill(address: str, count: int) -> None:
    """Write values as large as lists of leases, `count` of each size; they never expire."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        answers = connection.makefile("rb")
        for number in range(count):
            for size in (20, 50, 100, 200):
                value = b"x" * size
                connection.sendall(b"set of-others-%d-%d 0 0 %d\r\n%s\r\n" % (size, number, size, value))
                assert answers.readline() == b"STORED\r\n"


async def test_a_full_memcached_costs_no_money_and_the_local_cap_holds(
    databases, server_folder: Path, account, tmp_path: Path
) -> None:
    """Leases are evicted as they are held: no server exceeds its own cap, opens and creates are right to the fen."""
    spec = MemcachedSpec("small", server_folder, server_folder / "small.log", memory_mb=2)
    small = Memcached(spec, account=account)
    await small.start()
    try:
        with Gate(small.address, count=1, cap=100, local_cap=2) as (one,):
            leases = [await one.acquire(), await one.acquire()]
            await asyncio.to_thread(fill, small.address, 10_000)
            assert one._store._client().get("hongbao:alone:inside") is None, "the leases were not evicted"
            with pytest.raises(Unavailable, match="busy"):
                await one.acquire()
            for lease in leases:
                one.release(lease)
        async with living_town(databases, small.address, tmp_path) as town:
            filling = asyncio.ensure_future(asyncio.to_thread(fill, small.address, 15_000))
            envelope_ids = [await town.create(1_000, 10, sender=f"s{n}") for n in range(10)]
            answers = []
            for number in range(15):
                answers += await asyncio.gather(*(town.open(one, f"u{number}") for one in envelope_ids))
            await filling
            assert Counter(one["result"] for one in answers) == {"opened": 100, "sold_out": 50}
            assert sum(one["amount_fen"] or 0 for one in answers) == 10_000
            await prove(town)
    finally:
        await small.stop()
