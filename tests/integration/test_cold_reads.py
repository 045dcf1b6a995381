# ruff: noqa: E501 - one case a line reads best
"""Reading what has gone cold: the same answers as before, from the day's own tables and then from the archive."""

import shutil
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from archive.export import export_database
from archive.verify import verify_database
from cluster import roles
from envelope.errors import HongbaoError, Refused, Unavailable
from runtime.clock import ManualClock
from sharding.ids import business_date, day_of, make_id, slot_of
from tests.conftest import Databases
from tests.integration.cold_fixtures import KEY, detach, drop, move_on, owner
from tests.integration.set_fixtures import Town, living_town, prove
from wire.messages import Op

VIEWERS = [(user, token) for user in ("sender", "ann", "bob", "u0", "eve") for token in (True, False)]


@dataclass
class Past:
    """A town of two servers whose first day holds one envelope of each kind, all closed and paid."""

    town: Town
    folder: Path
    day: date
    envelopes: dict[str, int] = field(default_factory=dict)
    replay: list[Any] = field(default_factory=list)

    @property
    def owner(self) -> Any:
        assert self.town.databases is not None
        return owner(self.town.databases, self.town.set_dsn)

    async def hear(self, op: Op, envelope_id: int, user: str, token: bool, node: Any) -> Any:
        """Return the detail, or the code of the refusal."""
        args = [envelope_id, user, token] if op is Op.DETAIL else [envelope_id, user]
        try:
            return (await self.town.caller.ask(node, op, args))[0]
        except HongbaoError as error:
            return error.code

    async def everything(self) -> dict[tuple[str, str, bool, str], Any]:
        """What everybody is told of every envelope by the server that owns it."""
        return {
            (name, user, token, op.name): await self.hear(op, one, user, token, self.town.owner(one))
            for name, one in self.envelopes.items()
            for user, token in VIEWERS
            for op in (Op.DETAIL, Op.CANCEL)
            if op is Op.DETAIL or token
        }

    async def look(self) -> None:
        for node in self.town.nodes:
            await node._look_at_days()

    async def archive(self) -> None:
        """Export and verify all ten databases."""
        async with self.owner as connection:
            for xx in range(10):
                made = await export_database(connection, self.folder, KEY, xx=xx, day=self.day, proof=None)
                await move_on(connection, self.day, xx, "exported", made.digest)
                await verify_database(connection, self.folder, KEY, xx=xx, day=self.day)
                await move_on(connection, self.day, xx, "verified")

    async def drop(self) -> None:
        async with self.owner as connection:
            for xx in range(10):
                await drop(connection, self.day, xx)


@pytest.fixture
async def past(databases: Databases, memcached: str, tmp_path: Path) -> AsyncIterator[Past]:
    clock = ManualClock(datetime.now(UTC))
    folder = tmp_path / "archive"
    settings = {"archive": str(folder), "archive_key": KEY.decode()}
    async with living_town(databases, memcached, tmp_path, clock, **settings) as town:
        one = Past(town, folder, business_date(clock.now()))
        await fill(one)
        clock.advance(days=1)
        for node in town.nodes:
            while (await node.expiry.run_once()).closed:
                pass
        await prove(town)
        assert not await town.scalar("SELECT count(*) FROM due")
        yield one
        await prove(town)


async def fill(past: Past) -> None:
    town, made = past.town, past.envelopes
    made["sold out"] = await town.create(500, 5, greeting="恭喜发财 🧧")
    for n in range(5):
        await town.open(made["sold out"], f"u{n}")
    made["canceled"] = await town.create(500, 5)
    await town.open(made["canceled"], "u0")
    await town.cancel(made["canceled"], "sender")
    made["never opened"] = await town.create(100, 3)
    made["half"] = await town.create(1_000, 10)
    for n in range(4):
        await town.open(made["half"], f"u{n}")
    made["named"] = await town.create(200, 2, to=["ann", "bob"])
    await town.open(made["named"], "ann", token_ok=False)
    made["spoken"] = await town.create(300, 3, password="芝麻开门")
    await town.open(made["spoken"], "u0", password="芝麻开门")
    await town.open(made["spoken"], "u1", password="wrong")
    made["large"] = await town.create(30_000, 300)
    for n in range(150):
        await town.open(made["large"], f"u{n}")
    await town.deposit("again", 700)
    past.replay = town.create_args("again", 700, 7, "the same key")
    _, view = await town.caller.ask(town.owner(past.replay[3][0]), Op.CREATE, past.replay)
    made["repeated"] = int(view["envelope_id"])
    past.replay.append(view)


def archived(told: dict[Any, Any]) -> dict[Any, Any]:
    """The same, as it is told of cold envelopes."""
    return {key: {**one, "archived": True} if isinstance(one, dict) else one for key, one in told.items()}


async def test_the_same_answers_from_tables_and_from_the_archive(past: Past) -> None:
    """Detail and cancel tell everybody what they told before, with `archived`; open and grab answer expired."""
    town = past.town
    before = await past.everything()
    assert {one for one in before.values() if isinstance(one, str)} == {"not_invited", "not_the_sender", "already_final"}
    assert any(len(one["claims"]) == 150 for one in before.values() if isinstance(one, dict))
    async with past.owner as connection:
        await detach(connection, past.day, range(10))
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
    shutil.rmtree(past.folder)
    assert await past.everything() == archived(before), "the last ones are kept in memory"


async def forget(past: Past) -> None:
    for node in past.town.nodes:
        node.cold._kept.clear()


async def test_a_day_that_goes_cold_unnoticed(past: Past) -> None:
    """Servers that know nothing of it yet: no envelope is denied, whatever was looked at last, at each step."""
    town, half = past.town, past.envelopes["half"]
    for node in town.nodes:
        node.registry.retire(lambda _: True)
    node = town.owner(half)
    before = await past.hear(Op.DETAIL, half, "sender", True, node)
    node.registry.retire(lambda _: True)
    async with past.owner as connection:
        await detach(connection, past.day, range(10))
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
        await detach(connection, past.day, range(10))
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
        await detach(connection, past.day, range(10))
    await past.archive()
    await past.drop()
    await past.look()
    where = past.folder / past.day.isoformat() / f"db_{slot_of(half) // 10:02d}"
    kept = where.with_name("kept")
    for spoil in (
        lambda: shutil.rmtree(where),
        lambda: (where / "claim.parquet").unlink(),
        lambda: (where / "manifest.json").write_text("{}"),
        lambda: (where / "claim.parquet").write_bytes((where / "claim.parquet").read_bytes()[:-1] + b"x"),
        lambda: [shutil.rmtree(where), shutil.copytree(where.with_name("db_00" if slot_of(half) > 9 else "db_01"), where)],
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


async def test_a_server_without_an_archive_says_so(past: Past) -> None:
    """No HONGBAO_ARCHIVE: a dropped day is unavailable, its tables are still read while they stand."""
    half = past.envelopes["half"]
    node = past.town.owner(half)
    node.cold._details = None
    async with past.owner as connection:
        await detach(connection, past.day, range(10))
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
        await detach(connection, past.day, range(10))
    balance = await town.wallet.balance("again")
    for step in (past.archive, past.drop, None):
        for node in town.nodes:
            assert await town.caller.ask(node, Op.CREATE, args) == [True, view]
        if step is not None:
            await step()
    assert await town.wallet.balance("again") == balance


async def test_many_at_once_read_it_once(past: Past) -> None:
    """A hundred who ask for one cold envelope cost one read; its own claims are not mixed with another's."""
    large, half = past.envelopes["large"], past.envelopes["half"]
    node = past.town.owner(large)
    async with past.owner as connection:
        await detach(connection, past.day, range(10))
    await past.archive()
    await past.drop()
    await past.look()
    reads: list[int] = []
    read = node.cold._details.read
    node.cold._details.read = lambda envelope_id, digest: reads.append(envelope_id) or read(envelope_id, digest)
    asks = [past.town.caller.ask(node, Op.DETAIL, [one, "sender", True]) for one in (large, half) for _ in range(50)]
    told = [(await ask)[0] for ask in asks]
    assert {(one["envelope_id"], one["claimed_count"]) for one in told} == {(str(large), 150), (str(half), 4)}
    assert sorted(reads) == sorted([large, half])


async def test_a_read_only_role_reads_the_days_tables(past: Past) -> None:
    """The setnode's role may read a detached day and write none of it."""
    assert past.town.databases is not None
    async with past.owner as connection:
        await detach(connection, past.day, range(10), grant=False)
    import asyncpg

    connection = await asyncpg.connect(past.town.databases.dsn_as(past.town.set_dsn, roles.SETNODE))
    try:
        assert await connection.fetchval(f"SELECT count(*) FROM claim_{past.day:%Y%m%d}") > 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(f"INSERT INTO claim_{past.day:%Y%m%d} SELECT * FROM claim_{past.day:%Y%m%d}")
    finally:
        await connection.close()
    with pytest.raises(Refused, match="not_found"):
        await past.town.detail(make_id(past.day, 3, 3), f"x{uuid.uuid4().hex}")
