"""What is published: one change at a time, in one place; a host or database that was away catches up."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import msgspec
import pytest

from errors import HongbaoError, Refused, Unavailable
from published import table
from published.documents import SWITCHES, TOPOLOGY, Document, keep
from published.follower import Follower
from published.publisher import Publisher
from published.start import ensure_from_database
from schema import roles
from schema.migrate import migrate_set, migrate_wallet
from sharding.topology import ServerSpec, SetSpec, Topology, as_text, dump, load, parse
from sharding.topology.changes import assign, hold, paused, release
from switches.file import beside
from switches.file import load as load_switches
from switches.switch import Closes, Switch
from tests.conftest import Databases

SETS = tuple(
    SetSpec(name, (ServerSpec(f"{name}-a", f"http://127.0.0.1:{port}"),)) for name, port in (("set-1", 1), ("set-2", 3))
)
FIRST = Topology(1, 100, SETS, "http://127.0.0.1:2", pins={f"db_{xx:02}": "set-1" for xx in range(10)})
NOWHERE = "postgresql://hongbao_owner:x@127.0.0.1:1/hongbao"


class Place(SimpleNamespace):
    """One host: its files, and the databases of wallet and SETs."""

    dsns: dict[str, str]
    path: Path

    def publisher(self, who: str = "op", **elsewhere: str) -> Publisher:
        return Publisher(self.path, self.dsns | elsewhere, who)

    async def rows(self, database: str, name: str = TOPOLOGY) -> list[int]:
        connection = await asyncpg.connect(self.dsns[database])
        try:
            found = await connection.fetch("SELECT version FROM published WHERE name = $1 ORDER BY version", name)
        finally:
            await connection.close()
        return [row[0] for row in found]

    async def execute(self, database: str, statement: str, *args: Any) -> None:
        connection = await asyncpg.connect(self.dsns[database])
        try:
            await connection.execute(statement, *args)
        finally:
            await connection.close()


@pytest.fixture
async def place(databases: Databases, tmp_path: Path) -> Place:
    wallet = await databases.clone("published_wallet", _wallet)
    sets = [await databases.clone("published_set", _set) for _ in range(2)]
    dsns = {"wallet": wallet, "set-1": sets[0], "set-2": sets[1]}
    one = Place(
        dsns={name: databases.dsn_as(dsn, roles.OWNER) for name, dsn in dsns.items()}, path=tmp_path / "topology.json"
    )
    await one.publisher().first_topology(FIRST)
    return one


async def _wallet(dsn: str) -> None:
    await migrate_wallet(dsn)


async def _set(dsn: str) -> None:
    await migrate_set(dsn)


def switch(closes: Closes = Closes.CREATES, minutes: int = 10) -> Switch:
    now = datetime.now(UTC).replace(microsecond=0)
    return Switch(closes=closes, where="", owner="op", reason="test", since=now, until=now + timedelta(minutes=minutes))


async def test_a_change_is_everywhere(place: Place) -> None:
    """A row in the wallet's table and in each SET's, and this host's file; the same again changes nothing."""
    new = await place.publisher().change_topology(lambda old: paused(old, "set-1", on=True))
    assert (new.version, load(place.path)) == (2, new)
    assert [await place.rows(one) for one in place.dsns] == [[1, 2]] * 3
    assert await place.publisher().change_topology(lambda old: paused(old, "set-1", on=True)) == new
    assert [await place.rows(one) for one in place.dsns] == [[1, 2]] * 3
    with pytest.raises(Refused, match="no SET 'set-9'"):
        await place.publisher().change_topology(lambda old: paused(old, "set-9", on=True))
    assert await place.rows("wallet") == [1, 2]


async def test_of_many_who_change_at_once_none_undoes_another(place: Place, tmp_path: Path) -> None:
    """Each decides anew on what the others have made of it: all ten holds stand, in ten versions."""

    async def one(xx: int) -> None:
        publisher = Publisher(tmp_path / f"host-{xx}" / "topology.json", place.dsns, f"op {xx}")
        publisher._topology.parent.mkdir()
        while True:
            try:
                await publisher.change_topology(lambda old: hold(old, xx))
            except Unavailable as error:
                if error.code != "changed_meanwhile":
                    raise
            else:
                return

    await asyncio.gather(*map(one, range(10)))
    await place.publisher().refresh()
    assert sorted(load(place.path).held) == [f"db_{xx:02}" for xx in range(10)]
    assert await place.rows("wallet") == list(range(1, 12))


async def test_a_tool_that_slept_cannot_switch(place: Place) -> None:
    """It has read a topology, another has released the hold since: what it writes is refused, whatever it is."""
    held = await place.publisher().change_topology(lambda old: hold(old, 3))
    slept = assign(held, 3, "set-2")
    await place.publisher().change_topology(lambda old: release(old, 3))
    connection = await asyncpg.connect(place.dsns["wallet"])
    try:
        assert not await table.put(connection, Document(TOPOLOGY, slept.version, as_text(slept)), "slept")
    finally:
        await connection.close()
    await place.publisher().refresh()
    assert load(place.path).set_for_database(3).name == "set-1"


async def test_a_proof_is_true_of_the_version_that_is_followed(place: Place) -> None:
    """Who sleeps after its proof is refused by what another has published since, and proves again, or gives up."""
    proofs: list[int] = []

    async def proof() -> None:
        proofs.append((await place.rows("wallet"))[-1])
        if len(proofs) == 1:
            await place.publisher().settle()

    new = await place.publisher().change_topology(lambda old: hold(old, 3), proof)
    assert (proofs, new.version, new.held) == ([1, 2], 3, ("db_03",))

    async def no_longer() -> None:
        await place.publisher().settle()
        if len(proofs) == 3:
            raise Unavailable("move_lock_lost", "another has it")
        proofs.append(0)

    with pytest.raises(Unavailable, match="another has it"):
        await place.publisher().change_topology(lambda old: release(old, 3), no_longer)
    await place.publisher().refresh()
    assert load(place.path).held == ("db_03",)


async def test_after_settling_a_change_that_hangs_can_no_longer_win(place: Place) -> None:
    """Its transaction is open while another settles: that waits for it, and sees what became of it."""
    read = load(place.path)
    for commits in (False, True):
        slow = await asyncpg.connect(place.dsns["wallet"])
        transaction = slow.transaction()
        await transaction.start()
        read = await place.publisher().settle()
        late = hold(read, 5)
        await slow.execute(
            "INSERT INTO published (name, version, content, who) VALUES ($1, $2, $3, 'slow')",
            TOPOLOGY, late.version, as_text(late),
        )  # fmt: skip
        settling = asyncio.create_task(place.publisher().settle())
        await asyncio.sleep(0.2)
        assert not settling.done()
        await (transaction.commit() if commits else transaction.rollback())
        assert (await settling).held == (("db_05",) if commits else ())
        await slow.close()


async def test_nothing_is_changed_while_the_wallet_is_away(place: Place) -> None:
    """Topologies are decided there alone; switches are for bad hours, and the SETs take them."""
    away = place.publisher(wallet=NOWHERE)
    with pytest.raises(Unavailable) as told:
        await away.change_topology(lambda old: paused(old, "set-1", on=True))
    assert told.value.code == "not_published"
    assert [await place.rows(one) for one in place.dsns] == [[1]] * 3
    now = datetime.now(UTC)
    (on,) = await away.change_switches(lambda old: [*old, switch()], now)
    assert load_switches(beside(place.path)) == [on]
    assert [await place.rows(one, SWITCHES) for one in place.dsns] == [[], [1], [1]]
    both = await place.publisher().change_switches(lambda old: [*old, switch(Closes.LISTS)], now)
    assert [one.closes for one in both] == [Closes.CREATES, Closes.LISTS]
    assert await place.rows("wallet", SWITCHES) == [1_000]


async def test_a_set_that_was_away_is_named_and_catches_up(place: Place) -> None:
    """The next change brings it up to date; until then its servers hear of it from the wallet."""
    publisher = place.publisher(**{"set-2": NOWHERE})
    await publisher.change_topology(lambda old: paused(old, "set-1", on=True))
    assert publisher.behind == ("set-2",)
    assert await place.rows("set-2") == [1]
    await place.publisher().change_topology(lambda old: paused(old, "set-1", on=False))
    assert (await place.rows("set-2"))[-1] == 3


@pytest.mark.parametrize("where", ["file", "set"])
async def test_a_wallet_of_an_earlier_instant_is_given_the_newest_back(place: Place, where: str) -> None:
    """After a restore it has an older version than the SETs, or this host's file: what they have counts."""
    await place.publisher().change_topology(lambda old: paused(old, "set-1", on=True))
    await place.execute("wallet", "DELETE FROM published WHERE version = 2")
    if where == "set":
        place.path.unlink()
    else:
        for one in ("set-1", "set-2"):
            await place.execute(one, "DELETE FROM published WHERE version = 2")
    new = await place.publisher().change_topology(lambda old: paused(old, "set-2", on=True))
    assert (new.version, [one.paused for one in new.sets]) == (3, [True, True])
    assert (await place.rows("wallet"))[-1] == 3


async def test_a_lost_or_damaged_file_comes_back(place: Place) -> None:
    """A host needs no copy of it: `refresh`, and a process that starts, write it from what is published."""
    for damage in (place.path.unlink, lambda: place.path.write_text("{")):
        damage()
        await place.publisher().refresh()
        assert load(place.path) == FIRST
    place.path.unlink()
    await ensure_from_database(place.path, place.dsns["set-2"])
    assert load(place.path) == FIRST
    await place.execute("set-1", "DELETE FROM published")
    place.path.unlink()
    with pytest.raises(Refused, match="hongbao topology apply publishes the first"):
        await ensure_from_database(place.path, place.dsns["set-1"])


async def test_a_process_follows_and_never_goes_back(place: Place, tmp_path: Path) -> None:
    """It reads what is newer, tells others of it, and keeps what it has when it is shown something older or wrong."""
    here, there = tmp_path / "a" / "topology.json", tmp_path / "b" / "topology.json"
    for one in (here, there):
        one.parent.mkdir()
        dump(FIRST, one)
    follower, other = Follower(here), Follower(there)
    new = await place.publisher().change_topology(lambda old: paused(old, "set-1", on=True))
    await place.publisher().change_switches(lambda _: [switch()], datetime.now(UTC))
    connection = await asyncpg.connect(place.dsns["set-1"])
    try:
        assert await follower.look_in(connection)
        assert not await follower.look_in(connection)
    finally:
        await connection.close()
    assert (load(here), len(load_switches(beside(here)))) == (new, 1)
    told = follower.answer([list(other.versions.items())])
    assert await other.take(told)
    assert (load(there), other.versions) == (new, {TOPOLOGY: 2, SWITCHES: 1_000})
    assert follower.answer([list(other.versions.items())]) == []
    assert not await other.take([Document(TOPOLOGY, 1, as_text(FIRST))])
    sunk = msgspec.structs.replace(new, version=9, slots=1_000)
    assert not await other.take([Document(TOPOLOGY, 9, as_text(sunk)), Document(TOPOLOGY, 10, "{")])
    assert load(there) == new
    with pytest.raises(Refused, match="by name and version"):
        follower.answer([7])


def test_two_contents_of_one_version_are_refused(tmp_path: Path) -> None:
    """That cannot come from one table; the file stays."""
    path = tmp_path / "topology.json"
    assert keep(Document(TOPOLOGY, 1, as_text(FIRST)), path)
    assert not keep(Document(TOPOLOGY, 1, as_text(FIRST)), path)
    other = msgspec.structs.replace(FIRST, wallet_url="http://127.0.0.1:7")
    with pytest.raises(HongbaoError, match="must be above 1"):
        keep(Document(TOPOLOGY, 1, as_text(other)), path)
    assert load(path) == parse(as_text(FIRST).encode(), "text")
