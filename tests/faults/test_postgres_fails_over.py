"""A SET's primary is lost under load, its standby promoted: what was answered is there, nobody is told two things."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from errors import HongbaoError, Unavailable
from machine.account import Account
from runtime import metrics
from runtime.postgres import Session
from tests.conftest import Databases
from tests.faults.postgres_pair import PairDatabases, PostgresPair, postgres_pair, rows_of
from tests.integration.setnode.fixtures import Town, living_town, prove

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
PATIENCE_S = 30.0
SHARES, PEOPLE = 300, 40
_BACKENDS = """SELECT application_name, wait_event, count(*) FROM pg_stat_activity WHERE usename = 'hongbao_setnode'
GROUP BY 1, 2"""
_END_WAITS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
_FOREIGN = "INSERT INTO foreign_write (envelope_id, at) SELECT one, now() + '3 s' FROM unnest($1::bigint[]) AS one"
_CANCEL_WAITS = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


async def _open_until_told(town: Town, envelope_id: int, user: str, told: dict[str, set[int]], lost: list[str]) -> None:
    """Open as a client does: again and again until there is an answer, and note every amount that was told."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    while loop.time() < end:
        try:
            answer = await town.open(envelope_id, user)
        except HongbaoError:
            await asyncio.sleep(0.05)
            continue
        if answer["result"] in ("opened", "already_opened"):
            told.setdefault(user, set()).add(answer["amount_fen"])
        elif user in told:
            lost.append(f"{user} had won and heard {answer['result']}")
        return
    lost.append(f"{user} found no answer")


async def _standbys_are(count: int) -> None:
    """Wait until the servers' metric says so."""
    async with asyncio.timeout(PATIENCE_S):
        while f"hongbao_standbys {float(count)}" not in metrics.render().decode():
            await asyncio.sleep(0.05)


async def test_what_was_answered_outlives_the_primary(
    databases: Databases, memcached: str, server_folder: Path, tmp_path: Path, account: Account
) -> None:
    """Each of many users opens while the primary is killed; their answers are the new primary's rows, to the fen."""
    async with (
        postgres_pair(server_folder, account) as pair,
        living_town(PairDatabases(pair, databases), memcached, tmp_path) as town,
    ):
        envelope_id = await town.create(100 * SHARES, SHARES)
        told: dict[str, set[int]] = {}
        lost: list[str] = []

        async def person(number: int) -> None:
            for one in range(SHARES // PEOPLE):
                await _open_until_told(town, envelope_id, f"u{number}-{one}", told, lost)

        people = [asyncio.create_task(person(number)) for number in range(PEOPLE)]
        while len(told) < SHARES // 10:
            await asyncio.sleep(0.001)
        answered_before = dict(told)
        await pair.fail_over()
        await asyncio.gather(*people)
        assert lost == []
        # A repeat is answered from the new primary's log.
        await asyncio.gather(*(_open_until_told(town, envelope_id, user, told, lost) for user in list(told)))
        assert lost == []
        assert {user: amounts for user, amounts in told.items() if len(amounts) > 1} == {}
        rows = await rows_of(
            town.set_dsn, "SELECT user_id, amount_fen FROM claim WHERE envelope_id = $1 AND kind = 'open'", envelope_id
        )
        claims = {row["user_id"]: row["amount_fen"] for row in rows}
        assert len(answered_before) >= SHARES // 10
        assert {user: amounts.pop() for user, amounts in told.items()}.items() <= claims.items()
        await prove(town)


async def _cancel_waits(pair: PostgresPair) -> None:
    """Cancel every wait for a standby, as somebody might who ends statements that take long; at least one."""
    canceled = 0
    async with asyncio.timeout(PATIENCE_S):
        while not canceled:
            canceled = len(await rows_of(pair.primary.dsn(), _CANCEL_WAITS))
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "canceled", [False, pytest.param(True, marks=pytest.mark.long)], ids=["left alone", "wait canceled"]
)
async def test_a_primary_without_its_standby_confirms_nothing(
    databases: Databases, memcached: str, server_folder: Path, tmp_path: Path, account: Account, *, canceled: bool
) -> None:
    """An old primary that is cut off still takes connections: no open is answered by it, and none is there later.

    Nor if somebody cancels the commit's wait, whereupon Postgres says that it has committed.
    """
    async with (
        postgres_pair(server_folder, account) as pair,
        living_town(PairDatabases(pair, databases), memcached, tmp_path) as town,
    ):
        envelope_id = await town.create(1_000, 10)
        first = await town.open(envelope_id, "first")
        pair.standby.kill()
        await pair.standby.wait()
        # Its commit waits for a standby that is gone; the caller hears that the outcome is unknown, or nothing yet.
        cut_off = asyncio.create_task(town.open(envelope_id, "cut off"))
        if canceled:
            await _cancel_waits(pair)
        done, _ = await asyncio.wait({cut_off}, timeout=2.0)
        assert not done or isinstance(cut_off.exception(), HongbaoError)
        if canceled:
            # It is there to be read now; who asks again is not told of it either.
            again = asyncio.create_task(town.open(envelope_id, "cut off"))
            done, _ = await asyncio.wait({again, asyncio.create_task(_cancel_waits(pair))}, timeout=4.0)
            assert again not in done or isinstance(again.exception(), HongbaoError)
            again.cancel()
        assert [row["user_id"] for row in await rows_of(
            town.set_dsn, "SELECT user_id FROM claim WHERE envelope_id = $1", envelope_id
        )] == ["first", *(["cut off"] if canceled else [])]  # fmt: skip
        # The standby takes over from what it had: all that was ever confirmed.
        pair.primary.kill()
        await pair.primary.wait()
        await pair.standby.start()
        await pair.promote()
        told: dict[str, set[int]] = {"first": {first["amount_fen"]}}
        lost: list[str] = []
        for user in ("first", "cut off"):
            await _open_until_told(town, envelope_id, user, told, lost)
        await asyncio.wait({cut_off})
        assert lost == []
        assert told["first"] == {first["amount_fen"]}
        assert len(told["cut off"]) == 1
        await prove(town)


async def test_without_a_standby_a_set_is_read_only(
    databases: Databases,
    memcached: str,
    server_folder: Path,
    tmp_path: Path,
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What needs a commit is refused at once and begins nothing; what is in memory is shown; a standby ends it."""
    monkeypatch.setattr("setnode.standby.STANDBY_MISSING_S", 1.0)
    monkeypatch.setattr("setnode.service.STANDBY_EVERY_S", 0.1)
    monkeypatch.setattr("setnode.service.STANDBYS_EVERY_S", 0.1)
    async with (
        postgres_pair(server_folder, account) as pair,
        living_town(PairDatabases(pair, databases), memcached, tmp_path) as town,
    ):
        await _standbys_are(1)
        envelope_id, other = await town.create(1_000, 10), await town.create(1_000, 10)
        await town.open(other, "first")
        async with asyncio.timeout(10):
            # Once a server has looked for what others wrote, it reads no log again for that.
            while any(node.foreign_writes._seen is None for node in town.nodes):
                await asyncio.sleep(0.05)
        assert (await town.detail(other, "sender"))["claimed_count"] == 1
        pair.standby.kill()
        await pair.standby.wait()
        waiting = asyncio.create_task(town.open(envelope_id, "waits"))
        async with asyncio.timeout(10):
            while not all(node.standby.missing for node in town.nodes):
                await asyncio.sleep(0.05)
        await _standbys_are(0)
        for refused in (town.open(other, "late"), town.cancel(other, "sender"), town.create(100, 1)):
            with pytest.raises(Unavailable) as told:
                await refused
            assert told.value.code == "standby_missing"
            assert told.value.outcome_known
        assert (await town.detail(other, "sender"))["claimed_count"] == 1
        assert (await town.grab(other, "late"))["result"] == "openable"
        for node in town.nodes:
            node.registry.invalidate()
        with pytest.raises(Unavailable) as told:
            await town.detail(other, "sender")
        assert told.value.code == "standby_missing"
        await pair.standby.start()
        async with asyncio.timeout(30):
            while any(node.standby.missing for node in town.nodes):
                await asyncio.sleep(0.05)
        await _standbys_are(1)
        await asyncio.wait({waiting})
        told_after: dict[str, set[int]] = {}
        lost: list[str] = []
        for user, one in (("waits", envelope_id), ("late", other)):
            await _open_until_told(town, one, user, told_after, lost)
        assert lost == []
        assert set(told_after) == {"waits", "late"}
        await prove(town)


async def test_without_a_standby_no_connections_are_used_up(
    databases: Databases,
    memcached: str,
    server_folder: Path,
    tmp_path: Path,
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is done in the background waits as well: Postgres would keep a connection of each try, until it has none."""
    monkeypatch.setattr("setnode.standby.STANDBY_MISSING_S", 0.5)
    monkeypatch.setattr("setnode.service.STANDBY_EVERY_S", 0.1)
    for room in ("payouts.finisher", "expiry", "sweeper"):
        monkeypatch.setattr(f"setnode.services.{room}.SERVICE_DEADLINE_S", 0.5)
    monkeypatch.setattr("setnode.commit.invalidation.LISTEN_DEADLINE_S", 0.5)
    monkeypatch.setattr("setnode.commit.invalidation.FOREIGN_KEPT_S", 1.0)
    async with (
        postgres_pair(server_folder, account) as pair,
        living_town(PairDatabases(pair, databases), memcached, tmp_path) as town,
    ):
        ids = [await town.create(1_000, 10) for _ in range(4)]
        finishers = [node.payouts.finisher for node in town.nodes]
        async with contextlib.AsyncExitStack() as turns:
            for one in finishers:
                await turns.enter_async_context(one.turn)
            for one in ids:
                await town.open(one, "first")
            async with asyncio.timeout(PATIENCE_S):
                while sum(len(one._batches) for one in finishers) < len({town.owner(one) for one in ids}):
                    await asyncio.sleep(0.05)
            # What stand-ins have written, to be pruned.
            await rows_of(town.set_dsn, _FOREIGN, ids)
            pair.standby.kill()
            await pair.standby.wait()
            waiting = [asyncio.create_task(town.open(one, "waits")) for one in ids]
            async with asyncio.timeout(PATIENCE_S):
                while not all(node.standby.missing for node in town.nodes):
                    await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        before = await rows_of(pair.primary.dsn(), _BACKENDS)
        await asyncio.sleep(5)
        after = await rows_of(pair.primary.dsn(), _BACKENDS)
        assert sum(row[2] for row in after) <= sum(row[2] for row in before), (before, after)
        await pair.standby.start()
        await asyncio.wait(waiting)
        async with asyncio.timeout(PATIENCE_S):
            while any(one._batches for one in finishers):
                await asyncio.sleep(0.05)
        await prove(town)


@pytest.mark.parametrize("way", ["run", "run_inline"])
async def test_a_backend_that_was_ended_in_its_wait_casts_no_doubt_on_the_next(
    server_folder: Path, account: Account, way: str
) -> None:
    """A statement on the session's next connection succeeds: its outcome is known."""
    async with postgres_pair(server_folder, account) as pair:
        pair.standby.kill()
        await pair.standby.wait()
        session = Session(pair.primary.dsn())
        writing = asyncio.create_task(
            getattr(session, way)(lambda one: one.execute("CREATE TABLE t (a integer)"), 60.0)
        )
        async with asyncio.timeout(PATIENCE_S):
            while not await rows_of(pair.primary.dsn(), _END_WAITS):
                await asyncio.sleep(0.05)
        with pytest.raises(Unavailable) as lost:
            await writing
        assert not lost.value.outcome_known
        assert await getattr(session, way)(lambda one: one.fetchval("SELECT 1"), 60.0) == 1
        await session.close()


async def test_envelopes_go_on_from_what_a_standby_has_that_lacked_commits(
    databases: Databases, memcached: str, server_folder: Path, tmp_path: Path, account: Account
) -> None:
    """Without synchronous replication the last opens are lost with the primary; the logs in memory still have them.

    A claim behind them would leave a gap, which freezes its envelope: also in one that nobody opens at that moment.
    """
    async with (
        postgres_pair(server_folder, account) as pair,
        living_town(PairDatabases(pair, databases), memcached, tmp_path) as town,
    ):
        envelope_ids = [await town.create(1_000, 10, sender=f"s{number}") for number in range(3)]
        for envelope_id in envelope_ids:
            await town.open(envelope_id, "kept")
        await pair.wait_for_nobody()
        pair.standby.kill()
        await pair.standby.wait()
        for envelope_id in envelope_ids:
            for user in ("lost", "lost, too"):
                assert (await town.open(envelope_id, user))["result"] == "opened"
        pair.primary.kill()
        await pair.primary.wait()
        await pair.standby.start()
        await pair.promote()
        told: dict[str, set[int]] = {}
        lost: list[str] = []
        for envelope_id in envelope_ids:
            await _open_until_told(town, envelope_id, "late", told, lost)
            await _open_until_told(town, envelope_id, "later", told, lost)
        assert lost == []
        rows = await rows_of(
            town.set_dsn, "SELECT envelope_id, seq, user_id FROM claim WHERE kind = 'open' ORDER BY envelope_id, seq"
        )
        for envelope_id in envelope_ids:
            log = [(row["seq"], row["user_id"]) for row in rows if row["envelope_id"] == envelope_id]
            assert log == [(0, "kept"), (1, "late"), (2, "later")]
