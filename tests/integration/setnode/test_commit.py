"""The commit of a claim under everything that can happen to it: nobody hears `opened` without a row, or twice."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from errors import HongbaoError, Unavailable
from machine.postgres.server import Postgres, PostgresSpec
from runtime.postgres import Session
from schema.cluster_setup import set_up_cluster
from setnode.commit.committer import Committer
from tests.conftest import ROLES, Databases
from tests.integration.setnode.fixtures import (
    Town,
    common_town,
    living_town,
    module_databases,
    prove,
    shared_town,
)  # fmt: skip
from wire.messages import Op
from wire.server import Caller

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

KILL = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE '%:claims'"""


async def insist(town: Town, envelope_id: int, user: str, heard: list) -> dict:
    """Open like a client: as long as there is no outcome, ask again."""
    while True:
        try:
            answer = await town.open(envelope_id, user)
        except Unavailable as error:
            heard.append((envelope_id, user, error))
            await asyncio.sleep(0.01)
        else:
            heard.append((envelope_id, user, answer))
            return answer


async def truth(town: Town, envelope_ids: list[int]) -> dict[tuple[int, str], tuple[int, int]]:
    rows = await town.rows(
        "SELECT envelope_id, user_id, amount_fen, seq FROM claim WHERE envelope_id = ANY($1) AND kind = 'open'",
        envelope_ids,
    )
    return {(row["envelope_id"], row["user_id"]): (row["amount_fen"], row["seq"]) for row in rows}


def check_heard(heard: list, rows: dict) -> None:
    """Every answer is what the database says; nobody hears `opened` twice; a known refusal left no claim behind."""
    opened = Counter((envelope_id, user) for envelope_id, user, what in heard if _result(what) == "opened")
    assert set(opened.values()) <= {1}
    for envelope_id, user, what in heard:
        if _result(what) in ("opened", "already_opened"):
            assert (what["amount_fen"], what["seq"]) == rows[envelope_id, user]
    told = {(envelope_id, user) for envelope_id, user, what in heard if _result(what) in ("opened", "already_opened")}
    assert told == set(rows)


def _result(what: object) -> str:
    return what["result"] if isinstance(what, dict) else ""


async def test_killed_connections_under_load_leave_every_answer_true(common_town: Town) -> None:
    """The claim backends are killed again and again at random moments: all shares are sold once, all answers true."""
    town, chance = common_town, random.Random(2611)
    envelope_ids = [await town.create(6_000, 60) for _ in range(6)]
    heard: list = []
    crowd = [(envelope_id, f"u{n}") for n in range(90) for envelope_id in envelope_ids]
    chance.shuffle(crowd)
    connection = await asyncpg.connect(town.set_dsn)
    kills = 0

    async def one_after_the_other(part: list) -> None:
        for envelope_id, user in part:
            await insist(town, envelope_id, user, heard)
            # However fast the machine is, there is time for some kills.
            await asyncio.sleep(chance.uniform(0, 0.03))

    opening = asyncio.gather(*(one_after_the_other(crowd[start::30]) for start in range(30)))
    while not opening.done():
        if kills < 25:
            kills += await connection.fetchval(KILL)
        await asyncio.sleep(chance.uniform(0, 0.03))
    await opening
    await connection.close()
    assert kills >= 5
    rows = await truth(town, envelope_ids)
    assert len(rows) == 6 * 60
    check_heard(heard, rows)


@pytest.mark.parametrize("went_in", [True, False])
async def test_an_answer_lost_on_the_way_is_found_again(common_town: Town, monkeypatch, went_in) -> None:
    """The connection ends after (or before) the commit: everybody of the batch hears `opened`, once, and the amount."""
    town = common_town
    envelope_id = await town.create(1_000, 10)
    queue, lost = town.owner(envelope_id).claim_queue, []
    write = queue.write

    async def loses_the_answer(connection, batch):
        if lost:
            return await write(connection, batch)
        lost.append(batch)
        if went_in:
            await write(connection, batch)
        raise ConnectionResetError("the answer was lost")

    monkeypatch.setattr(queue, "write", loses_the_answer)
    answers = await asyncio.gather(*(town.open(envelope_id, user) for user in ("a", "b", "a", "c")))
    assert lost
    assert [one["result"] for one in answers] == ["opened", "opened", "already_opened", "opened"]
    rows = await truth(town, [envelope_id])
    assert {user: (one["amount_fen"], one["seq"]) for user, one in zip("abac", answers, strict=True)} == {
        user: row for (_, user), row in rows.items()
    }


async def test_a_failed_transaction_is_decided_anew(common_town: Town, monkeypatch) -> None:
    """An error that surely wrote nothing costs nobody his share."""
    town = common_town
    envelope_id = await town.create(1_000, 10)
    queue, failed = town.owner(envelope_id).claim_queue, []
    write = queue.write

    async def deadlocks_once(connection, batch):
        if not failed:
            failed.append(1)
            raise asyncpg.DeadlockDetectedError("chosen as the victim")
        return await write(connection, batch)

    monkeypatch.setattr(queue, "write", deadlocks_once)
    assert (await town.open(envelope_id, "a"))["result"] == "opened"
    assert failed


class Sleepy:
    """So many transactions that sleep in Postgres; a `broken` queue fails after them where nobody expects it."""

    def __init__(self, batches: int, *, broken: bool = False) -> None:
        self.nonempty, self.backlogged = asyncio.Event(), asyncio.Event()
        self.nonempty.set()
        self.backlogged.set()
        self.begun, self.ended = [], []
        self._left, self._broken = batches, broken

    def hot_envelopes(self) -> list[int]:
        return []

    def next_batch(self, skip: set[int]) -> list[int] | None:
        if not self._left:
            if self._broken:
                raise ZeroDivisionError("nobody expects this")
            self.nonempty.clear()
            return None
        self._left -= 1
        return [self._left]

    async def write(self, connection, batch: list[int]) -> int:
        self.begun.append(batch)
        return await connection.fetchval("SELECT 1 FROM pg_sleep(1)")

    def on_committed(self, batch: list[int], result: int) -> None:
        self.ended.append((batch, result))

    def on_failed(self, batch: list[int], error: Exception) -> None:
        self.ended.append((batch, error))

    def on_rejected(self, error: HongbaoError) -> None:
        raise AssertionError(error)


def sessions_of(town: Town) -> list[Session]:
    return [Session(town.nodes[0].settings.postgres_dsn) for _ in range(2)]


async def test_who_leaves_in_mid_commit_hears_how_it_ended(common_town: Town) -> None:
    """Two transactions are under way when the committer is cancelled: both end in Postgres, and are told."""
    queue, sessions = Sleepy(5), sessions_of(common_town)
    committer = Committer(queue, sessions, common_town.nodes[0].admission)
    running = asyncio.ensure_future(committer.run())
    async with asyncio.timeout(5):
        while len(queue.begun) < 2:
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(queue.begun) == 2, "nobody begins another one"
    assert sorted(queue.ended) == [([3], 1), ([4], 1)]
    assert all(session.up for session in sessions)
    for session in sessions:
        await session.close()


async def test_who_is_told_twice_to_leave_leaves_and_cancels_nothing(common_town: Town) -> None:
    """There is no time left: the connection goes without a word, and Postgres ends what it was told."""
    queue, (session, *_) = Sleepy(1), sessions_of(common_town)
    running = asyncio.ensure_future(Committer(queue, [session], common_town.nodes[0].admission).run())
    async with asyncio.timeout(5):
        while not queue.begun:
            await asyncio.sleep(0.01)
        for _ in range(2):
            await asyncio.sleep(0.02)
            running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert not queue.ended
    assert not session.up
    assert await common_town.rows("SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(1)'")


async def test_a_worker_that_fails_ends_the_committer_with_its_error(common_town: Town) -> None:
    """No queue stands still in a process that looks healthy: the error comes out, the other's commit is told."""
    queue, sessions = Sleepy(1, broken=True), sessions_of(common_town)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Committer(queue, sessions, common_town.nodes[0].admission).run(), 5)
    assert queue.ended == [([0], 1)]
    for session in sessions:
        await session.close()


async def test_a_caller_who_hangs_up_does_not_cancel_his_commit(common_town: Town) -> None:
    """The claim of a caller that is gone is durable, and the repeat tells it."""
    town = common_town
    envelope_id = await town.create(1_000, 10)
    gone = Caller("gone")
    town.owner(envelope_id).dispatcher.handle(gone, 1, Op.OPEN, [envelope_id, "a", True, None])
    gone.gone = True
    town.caller.ask(town.owner(envelope_id), Op.OPEN, [envelope_id, "b", True, None]).cancel()
    await town.open(envelope_id, "c")
    assert [(await town.open(envelope_id, user))["result"] for user in "ab"] == ["already_opened"] * 2


async def test_a_double_click_in_one_batch_wins_once(common_town: Town) -> None:
    """Ten opens of one user that are decided together: one opened, nine already_opened, the same amount."""
    town = common_town
    envelope_id = await town.create(1_000, 10)
    answers = await asyncio.gather(*(town.open(envelope_id, "a") for _ in range(10)))
    assert Counter(one["result"] for one in answers) == {"opened": 1, "already_opened": 9}
    assert len({(one["amount_fen"], one["seq"]) for one in answers}) == 1


async def test_what_an_answer_showed_stays_after_a_reload(common_town: Town) -> None:
    """Another server that reads the log from Postgres shows the very same detail, instants included."""
    town = common_town
    envelope_id = await town.create(1_000, 10)
    for user in "abc":
        await town.open(envelope_id, user)
    await town.cancel(envelope_id, "sender")
    args = [envelope_id, "sender", True]
    details = [await town.caller.ask(node, Op.DETAIL, args) for node in town.nodes]
    assert details[0] == details[1]


@pytest.mark.parametrize("seed", ["seed", "NULL", "'not hex'"])
async def test_one_bad_header_does_not_hide_its_neighbours(common_town: Town, seed: str) -> None:
    """An envelope whose header cannot be read is frozen; another of the same slot and day opens."""
    town = common_town
    bad = await town.create(100, 2, key=f"bad {seed}")
    good = bad + 1_000
    columns = "shares, created_at, opens_at, expires_at, slot, kind, named, sender, create_key, greeting, total_fen"
    split = "'no_such_split'" if seed == "seed" else "split"
    connection = await asyncpg.connect(town.set_dsn)
    await connection.execute("ALTER TABLE envelope DISABLE TRIGGER envelope_insert")
    await connection.execute(
        f"INSERT INTO envelope (envelope_id, split, split_version, seed, {columns}) "
        f"SELECT envelope_id + 1000, {split}, 1, {seed}, {columns} FROM envelope WHERE envelope_id = {bad}"
    )
    await connection.execute("ALTER TABLE envelope ENABLE TRIGGER envelope_insert")
    await connection.close()
    nodes = town.other(bad), town.other(good)
    answers = await asyncio.gather(
        town.open(good, "a", node=nodes[0]), town.open(bad, "a", node=nodes[0]), return_exceptions=True
    )
    await town.scalar("DELETE FROM envelope WHERE envelope_id = $1", good)
    assert getattr(answers[0], "code", "") == "invariant_broken"
    assert answers[1]["result"] == "opened"


@pytest.mark.parametrize("secret", [None, "word"])
async def test_a_row_that_postgres_does_not_take_costs_its_own_envelope_only(
    common_town: Town, monkeypatch: pytest.MonkeyPatch, secret: str | None
) -> None:
    """A name too long for its column, past every check: its envelope freezes, those of the same batch are opened."""
    town = common_town
    monkeypatch.setattr("setnode.dispatch._USER_CHARS", 60)
    node = town.nodes[0]
    groups = [await town.create(100, 2, password=secret) for _ in range(5)]
    users = ["u", "u", "x" * 50, "u", "u"]
    asked = [
        town.open(envelope_id, user, node=node, password=secret)
        for envelope_id, user in zip(groups, users, strict=True)
    ]
    if secret:
        # A wrong password beside them: the batch then takes the way of each envelope for itself.
        asked.append(town.open(groups[0], "v", node=node, password="wrong"))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [one["result"] for number, one in enumerate(answers[:5]) if number != 2] == ["opened"] * 4
    assert getattr(answers[2], "code", "") == "invariant_broken"
    rows = await truth(town, groups)
    assert {user for _, user in rows} == {"u"}
    assert len(rows) == 4
    await town.paid_out()
    # Thawed, it is opened by others.
    node.registry._actors[groups[2]].frozen_until = 0.0
    assert (await town.open(groups[2], "u", node=node, password=secret))["result"] == "opened"


async def test_a_log_that_two_rows_contradict_stops_no_other_envelope(common_town: Town) -> None:
    """A user stands at a later seq, by hand: the batch conflicts as a whole, the other envelopes of it are opened."""
    town = common_town
    node = town.nodes[0]
    odd, well = await town.create(100, 3), await town.create(100, 3)
    for one in (odd, well):
        await town.open(one, "first", node=node)
    await town.scalar(
        "INSERT INTO claim SELECT envelope_id, amount_fen, claimed_at, 2, shares, slot, kind, 'twice' "
        "FROM claim WHERE envelope_id = $1",
        odd,
    )
    # The second of this batch is the user who stands at seq 2 already.
    asked = [town.open(one, user, node=node) for one, user in ((odd, "u"), (odd, "twice"), (well, "u"))]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await town.scalar("DELETE FROM claim WHERE envelope_id = $1 AND user_id = 'twice'", odd)
    assert answers[2]["result"] == "opened"
    assert {getattr(one, "code", "") for one in answers[:2]} == {"invariant_broken"}


async def test_an_envelope_that_no_date_can_show_stops_no_other(common_town: Town) -> None:
    """Its start lies behind the last year of a calendar, by hand: showing it fails alone, and no server ends."""
    town = common_town
    far, well = await town.create(100, 2, key="far"), await town.create(100, 2, key="well")
    node = town.other(far)
    connection = await asyncpg.connect(town.set_dsn)
    await connection.execute(
        "UPDATE envelope SET opens_at = timestamptz '20000-01-01 00:00+00', expires_at = "
        f"timestamptz '20000-01-02 00:00+00', header_seal = NULL WHERE envelope_id = {far}"
    )
    asked = [
        town.caller.ask(node, Op.DETAIL, [far, "sender", True]),
        town.caller.ask(node, Op.DETAIL, [well, "sender", True]),
        town.caller.ask(node, Op.CANCEL, [far, "sender"]),
        town.open(well, "a", node=node),
    ]
    shown_far, shown_well, canceled, opened = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(shown_far, Exception)
    assert isinstance(canceled, Exception)
    assert (shown_well[0]["envelope_id"], opened["result"]) == (str(well), "opened")
    assert await town.scalar("SELECT kind FROM claim WHERE envelope_id = $1", far) == "canceled"
    await connection.execute(
        "UPDATE envelope SET opens_at = created_at, expires_at = created_at + interval '1 day' "
        f"WHERE envelope_id = {far}"
    )
    await connection.close()


TERMS = {
    "kind": "lucky",
    "split": "bell",
    "total_fen": 100,
    "count": 20,
    "expires_in_s": 60,
    "greeting": "",
    "to": None,
}


@pytest.mark.parametrize(
    ("op", "args", "code"),
    [
        (Op.OPEN, [2613320000000001007, "a", True, None], "malformed_envelope_id"),
        (Op.OPEN, [20_000_000_000_000_000_007, "a", True, None], "malformed_envelope_id"),
        (Op.OPEN, [2611210000000001007, "", True, None], "malformed_request"),
        (Op.OPEN, [2611210000000001024.0, "a", True, None], "malformed_request"),
        (Op.OPEN, ["2611210000000001007", "a", True, None], "malformed_request"),
        (Op.OPEN, [2611210000000001007, "u" * 41, True, None], "malformed_request"),
        (Op.OPEN, [2611210000000001007, "a\0", True, None], "malformed_request"),
        (Op.OPEN, [2611210000000001007, "a"], "malformed_request"),
        (Op.GRAB, [2611210000000001999, "a", True], "wrong_set"),
        (Op.CREATE, ["a", "k", "f", [], TERMS], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007.0], TERMS], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007]], "malformed_request"),
        (Op.CREATE, ["", "k", "f", [2611210000000001007], TERMS], "malformed_request"),
        (Op.CREATE, ["a\0", "k", "f", [2611210000000001007], TERMS], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "kind": "surprise"}], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "total_fen": 0}], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "total_fen": True}], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "count": 101}], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "greeting": "a\0"}], "control_character"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "to": ["b\0"]}], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "greeting": "a" * 65}], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "expires_in_s": -5}], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001007], {**TERMS, "opens_at_ms": 2**63}], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2**63], TERMS], "malformed_request"),
        (Op.CREATE, ["a", "k", "f", [2611210000000001999], TERMS], "wrong_set"),
        (99, [], "unknown_operation"),
    ],
)
async def test_what_makes_no_sense_stops_at_the_door(common_town: Town, op, args, code) -> None:
    """A malformed request is refused alone; the server and its envelopes live on."""
    with pytest.raises(HongbaoError) as refused:
        await common_town.caller.ask(common_town.nodes[0], op, args)
    assert refused.value.code == code


@pytest.mark.faults
async def test_postgres_goes_away_and_comes_back(server_folder: Path, account, memcached: str, tmp_path: Path) -> None:
    """Killed and started again in mid-load: meanwhile unavailable or unknown, afterwards all is sold and true."""
    spec = PostgresSpec(
        "away", server_folder / "pg" / "away", server_folder / "away.log", {role: f"secret_of_{role}" for role in ROLES}
    )
    server = Postgres(spec, account=account)
    await server.start()
    try:
        await set_up_cluster(server.dsn(), server.spec.passwords)
        databases = Databases(server, {})
        async with living_town(databases, memcached, tmp_path) as town:
            envelope_ids = [await town.create(3_000, 30) for _ in range(4)]
            heard: list = []
            opening = asyncio.gather(
                *(insist(town, envelope_id, f"u{n}", heard) for n in range(20) for envelope_id in envelope_ids)
            )
            while not heard:
                await asyncio.sleep(0)
            server.kill()
            await server.wait()
            with pytest.raises(Unavailable):
                await town.open(envelope_ids[0], "late")
            await server.start()
            await opening
            await asyncio.gather(*(insist(town, one, f"v{n}", heard) for n in range(20) for one in envelope_ids))
            rows = await truth(town, envelope_ids)
            assert len(rows) == 4 * 30
            check_heard(heard, rows)
            async with asyncio.timeout(20):
                while any(node.readiness.missing() for node in town.nodes):
                    await asyncio.sleep(0.05)
            await prove(town)
    finally:
        await server.stop("immediate")
