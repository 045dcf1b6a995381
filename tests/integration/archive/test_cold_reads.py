"""Reading what has gone cold: the same answers as before, from the day's own tables and then from the archive."""

import asyncio
import shutil
import threading
from datetime import date
from typing import Any

import asyncpg
import pytest

from archive import details, store
from archive.register import read_register
from errors import Unavailable
from schema import roles
from sharding.ids import database_for, day_of, make_id, slot_of
from sharding.slots import database_name
from tests.integration.archive.fixtures import KEY, detach, move_on
from tests.integration.archive.past import Past, past
from tests.integration.setnode.fixtures import XXS
from wire.messages import Op

__all__ = ["past"]


def archived(told: dict[Any, Any]) -> dict[Any, Any]:
    """The same, as it is told of cold envelopes."""
    return {key: {**one, "archived": True} if isinstance(one, dict) else one for key, one in told.items()}


async def test_the_same_answers_from_tables_and_from_the_archive(past: Past) -> None:
    """Detail and cancel tell everybody what they told before, with `archived`; open and grab answer expired."""
    town = past.town
    before = await past.everything()
    assert {one for one in before.values() if isinstance(one, str)} == {
        "not_invited",
        "not_the_sender",
        "already_final",
    }
    assert any(one["claimed_count"] == 150 for one in before.values() if isinstance(one, dict))
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.look()
    assert all(not len(node.registry) for node in town.nodes)
    assert await past.everything() == archived(before)
    await past.archive()
    await forget(past)
    assert await past.everything() == archived(before)
    await past.drop()
    await forget(past)
    assert await past.everything() == archived(before)
    for one in past.envelopes.values():
        for node in town.nodes:
            assert (await town.open(one, "late", node=node))["result"] == "expired"
        assert (await town.grab(one, "u0"))["result"] == "expired"
    past.folder.rename(past.folder.with_name("away"))
    assert await past.everything() == archived(before), "the last ones are kept in memory"
    past.folder.with_name("away").rename(past.folder)


async def forget(past: Past) -> None:
    for node in past.town.nodes:
        node.cold._kept.clear()


async def test_whoever_sees_first_that_a_day_is_cold_its_actors_go(past: Past) -> None:
    """Somebody asks for what is not in memory before the servers look: nobody answers as if the day were hot."""
    town, sold = past.town, past.envelopes["sold out"]
    for one in past.envelopes.values():
        await past.hear(Op.DETAIL, one, "sender", True, town.owner(one))
    assert any(len(node.registry) for node in town.nodes)
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    for node in town.nodes:
        for xx in XXS:
            made_up = next(one for n in range(1_000) if node.owns(one := make_id(past.day, n, xx * 10)))
            await past.hear(Op.DETAIL, made_up, "eve", True, node)
    for _ in range(2):
        await past.look()
    assert [len(node.registry) for node in town.nodes] == [0, 0]
    assert (await past.hear(Op.DETAIL, sold, "sender", True, town.owner(sold)))["archived"] is True
    assert (await town.open(sold, "u0"))["result"] == "expired"


async def test_a_day_that_goes_cold_unnoticed(past: Past) -> None:
    """Servers that know nothing of it yet: no envelope is denied, whatever was looked at last, at each step."""
    town, half = past.town, past.envelopes["half"]
    for node in town.nodes:
        node.registry.retire(lambda _: True)
    node = town.owner(half)
    before = await past.hear(Op.DETAIL, half, "sender", True, node)
    node.registry.retire(lambda _: True)
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        # The rotation is between two of its steps: detached, and the register does not say so yet.
        await move_on(connection, past.day, slot_of(half) // 10, "closed")
    assert await past.hear(Op.DETAIL, half, "sender", True, node) == {**before, "archived": True}
    await past.archive()
    await past.drop()
    await forget(past)
    assert await past.hear(Op.DETAIL, half, "sender", True, node) == {**before, "archived": True}
    other = town.other(half)
    assert (await town.open(half, "late", node=other))["result"] == "expired"


async def test_what_never_was_is_not_found(past: Past) -> None:
    """A made-up ID of a cold day has no detail; one of a day without tables or register row is not found at all."""
    town = past.town
    half = past.envelopes["half"]
    nobody = make_id(past.day, 123, slot_of(half))
    long_ago = make_id(date(2020, 2, 2), 5, slot_of(half))
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    for step in (past.archive, past.drop, None):
        for one in (nobody, long_ago):
            for node in town.nodes:
                assert await past.hear(Op.DETAIL, one, "sender", True, node) == "not_found"
                assert await past.hear(Op.CANCEL, one, "sender", True, node) == "not_found"
        assert (await town.open(long_ago, "a"))["result"] == "not_found"
        if step is not None:
            await step()


async def test_an_archive_that_is_missing_or_not_true_is_unavailable(past: Past) -> None:
    """Never not_found and never a row of it: the archive is away until it is there and true."""
    half = past.envelopes["half"]
    node = past.town.owner(half)
    before = await past.hear(Op.DETAIL, half, "sender", True, node)
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.archive()
    await past.drop()
    await past.look()
    where = past.folder / past.day.isoformat() / database_name(database_for(half))
    kept = where.with_name("kept")
    for spoil in (
        lambda: [where.with_name("gone").mkdir(), where.replace(where.with_name("gone"))],
        (where / "claim.parquet").unlink,
        lambda: (where / "manifest.json").write_text("{}"),
        lambda: (where / "claim.parquet").write_bytes((where / "claim.parquet").read_bytes()[:-1] + b"x"),
        lambda: [
            shutil.rmtree(where),
            shutil.copytree(where.with_name("db_00" if slot_of(half) > 9 else "db_01"), where),
        ],
    ):
        assert await past.hear(Op.DETAIL, half, "sender", True, node) == {**before, "archived": True}
        await forget(past)
        shutil.copytree(where, kept)
        spoil()
        for op in (Op.DETAIL, Op.CANCEL):
            with pytest.raises(Unavailable) as caught:
                await past.town.caller.ask(node, op, [half, "sender", True])
            assert (caught.value.code, caught.value.outcome_known) == ("archive_unavailable", True)
            assert str(past.folder) not in caught.value.detail
        assert (await past.town.open(half, "late"))["result"] == "expired"
        shutil.rmtree(where, ignore_errors=True)
        kept.rename(where)


async def test_cards_of_cold_envelopes(past: Past) -> None:
    """A list shows the same while its day goes cold, from tables and archive; without the archive the rest is shown."""
    town, ids = past.town, list(past.envelopes.values())

    async def shown(user: str) -> list[bytes | None]:
        return (await town.caller.ask(town.nodes[0], Op.CARDS, [user, ids]))[0]

    async def everybody() -> dict[str, list[bytes | None]]:
        return {user: await shown(user) for user in ("sender", "ann", "u0", "eve")}

    before = await everybody()
    assert before["sender"].count(None) == 1, "one is of another sender"
    assert set(before["eve"]) == {None}
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    for node in town.nodes:
        node.registry.retire(lambda _: True)
    assert await everybody() == before, "a day that went cold unnoticed"
    await past.look()
    for step in (past.archive, past.drop, None):
        await forget(past)
        assert await everybody() == before
        if step is not None:
            await step()
    hot = await town.create(100, 3)
    ids.append(hot)
    await forget(past)
    away = past.folder.rename(past.folder.with_name("away"))
    assert [one is None for one in await shown("sender")] == [True] * len(past.envelopes) + [False]
    away.rename(past.folder)
    assert (await shown("sender"))[:-1] == before["sender"]


async def test_a_cold_envelope_is_named_by_a_version_as_well(past: Past) -> None:
    """It is not that of the hot one, which is shown without `archived`; who has it is sent no detail."""
    half = past.envelopes["half"]
    node = past.town.owner(half)
    _, own, hot = await past.town.caller.ask(node, Op.DETAIL, [half, "sender", True])
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.look()
    told, own, cold = await past.town.caller.ask(node, Op.DETAIL, [half, "sender", True, 0, 100, [hot]])
    assert (told["archived"], own, cold == hot) == (True, True, False)
    assert await past.town.caller.ask(node, Op.DETAIL, [half, "sender", True, 0, 100, [cold]]) == [None, True, cold]


async def test_a_server_without_an_archive_says_so(past: Past) -> None:
    """No HONGBAO_ARCHIVE: a dropped day is unavailable, its tables are still read while they stand."""
    half = past.envelopes["half"]
    node = past.town.owner(half)
    node.cold._details = None
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.look()
    assert (await past.hear(Op.DETAIL, half, "sender", True, node))["archived"]
    await past.archive()
    await past.drop()
    await forget(past)
    assert await past.hear(Op.DETAIL, half, "sender", True, node) == "archive_unavailable"


async def test_a_create_repeated_after_its_day_went_cold(past: Past) -> None:
    """The same key gives the same body and takes no money, from the day's tables and from the archive."""
    town = past.town
    *args, view = past.replay
    assert day_of(args[3][0]) == past.day
    args = town.create_args("again", 700, 7, "the same key")
    assert day_of(args[3][0]) != past.day
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    balance = await town.wallet.balance("again")
    for step in (past.archive, past.drop, None):
        for node in town.nodes:
            assert await town.caller.ask(node, Op.CREATE, args) == [True, int(view["envelope_id"]), view]
        if step is not None:
            await step()
    assert await town.wallet.balance("again") == balance


async def test_many_at_once_read_it_once(past: Past) -> None:
    """A hundred who ask for one cold envelope cost one read; its own claims are not mixed with another's."""
    large, half = past.envelopes["large"], past.envelopes["half"]
    node = past.town.owner(large)
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.archive()
    await past.drop()
    await past.look()
    reads: list[int] = []
    read = node.cold._details.read

    def counted(one: int, digest: str | None, **how: bool) -> Any:
        row = read(one, digest, **how)  # NotVerifiedYet, the first time: nothing was read
        reads.append(one)
        return row

    node.cold._details.read = counted
    asks = [past.town.caller.ask(node, Op.DETAIL, [one, "sender", True]) for one in (large, half) for _ in range(50)]
    told = [(await ask)[0] for ask in asks]
    assert {(one["envelope_id"], one["claimed_count"]) for one in told} == {(str(large), 150), (str(half), 4)}
    assert sorted(reads) == sorted([large, half])


async def test_the_setnode_may_only_read_a_cold_day(past: Past) -> None:
    """The setnode's role may read a detached day and write none of it."""
    assert past.town.databases is not None
    async with past.owner as connection:
        await detach(connection, past.day, XXS, grant=False)
    connection = await asyncpg.connect(past.town.databases.dsn_as(past.town.set_dsn, roles.SETNODE))
    try:
        assert await connection.fetchval(f"SELECT count(*) FROM claim_{past.day:%Y%m%d}") > 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(f"INSERT INTO claim_{past.day:%Y%m%d} SELECT * FROM claim_{past.day:%Y%m%d}")
    finally:
        await connection.close()


async def test_the_sweeper_passes_the_funds_of_cold_days(past: Past) -> None:
    """A cursor that stands before them (a database that came from elsewhere) does not wait for their tables."""
    town = past.town
    node = town.nodes[0]
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        await connection.execute("UPDATE fund_cursor SET after = 0")
    funds = await town.scalar("SELECT max(fund_id) FROM fund", wallet=True)
    node.sweeper._after_s = -86_400.0
    while (await node.sweeper.run_once()).funds:
        pass
    assert await town.scalar("SELECT after FROM fund_cursor") == funds


async def test_archives_not_yet_believed_keep_nobody_else_waiting(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up IDs of many archives are read through one at a time; who asks for a believed one is answered."""
    half = past.envelopes["half"]
    node = past.town.owner(half)
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.archive()
    await past.drop()
    await past.look()
    assert (await past.hear(Op.DETAIL, half, "sender", True, node))["archived"]
    go, at_work, most = threading.Event(), [], []

    def slowly(archive: Any, *, xx: int, **told: Any) -> Any:
        at_work.append(xx)
        most.append(len(at_work))
        assert go.wait(20)
        at_work.remove(xx)
        return believed(archive, xx=xx, **told)

    believed = store.verified
    monkeypatch.setattr(store, "verified", slowly)
    others = [make_id(past.day, 1, xx * 10) for xx in XXS if xx != slot_of(half) // 10]
    asked = [asyncio.ensure_future(past.hear(Op.DETAIL, one, "eve", True, node)) for one in others]
    while not at_work:
        await asyncio.sleep(0.01)
    await forget(past)
    async with asyncio.timeout(5):
        assert (await past.hear(Op.DETAIL, half, "sender", True, node))["archived"]
    go.set()
    assert set(await asyncio.gather(*asked)) == {"not_found"}
    assert set(most) == {1}


async def test_the_archives_asked_for_last_stay_believed(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two, the archive asked for again and again is not verified again when others are asked for."""
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.archive()
    seen: list[int] = []
    believed = store.verified
    monkeypatch.setattr(store, "verified", lambda *told, xx, **more: (seen.append(xx), believed(*told, xx=xx, **more)))
    monkeypatch.setattr(details, "REMEMBERED", 2)
    reading = details.Details(past.folder, KEY)
    for xx in (0, 1, 0, 2, 0, 1, 0):
        await asyncio.to_thread(reading.read, make_id(past.day, 1, xx * 10), None)
    assert seen == [0, 1, 2, 1]


DROPPED = 40_000


async def test_what_is_dropped_is_read_once_from_the_register(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """A register of years: a look reads what may have changed, and never misses a change."""
    cold = past.town.nodes[0].cold
    found: list[int] = []

    async def counted(*args: Any, **kwargs: Any) -> Any:
        rows = await read_register(*args, **kwargs)
        found.append(len(rows))
        return rows

    async def no_look(*_: Any) -> None:
        """In the place of the servers' own looks, one of which may begin while another is under way."""

    monkeypatch.setattr("setnode.activation.cold.read_register", counted)
    refresh = type(cold).refresh
    monkeypatch.setattr(type(cold), "refresh", no_look)
    long_ago = date(2020, 1, 1)
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        await connection.execute(
            "INSERT INTO day_register (day, xx, state, envelopes, claims, paid_in_fen, claimed_fen, refunded_fen, "
            "manifest_sha256) SELECT $1::date - n / 100, n % 100, 'dropped', 0, 0, 0, 0, 0, repeat('a', 64) "
            "FROM generate_series(0, $2::int - 1) n", long_ago, DROPPED,
        )  # fmt: skip
        for node in past.town.nodes:
            await refresh(node.cold, connection)
        for _ in range(3):
            await refresh(cold, connection)
        writing = connection.transaction()
        await writing.start()
        await connection.execute(
            "UPDATE day_register SET manifest_sha256 = repeat('b', 64) WHERE day = $1 AND xx = 7", long_ago
        )
        other = await asyncpg.connect(past.town.set_dsn)
        for _ in range(2):
            await other.execute("INSERT INTO operation_log (who, what, reason) VALUES ('t', 't', 't')")
            await refresh(cold, other)
        await writing.commit()
        await refresh(cold, other)
        await other.close()
        await connection.execute("DELETE FROM day_register WHERE day <= $1", long_ago)
    first_looks = [rows for rows in found if rows >= DROPPED]
    assert len(first_looks) == len(past.town.nodes), "each server reads all of it once"
    assert max(rows for rows in found if rows < DROPPED) < 100
    assert cold._cold[200101 * 100 + 7].manifest_sha256 == "b" * 64
