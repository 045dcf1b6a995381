"""What waits for a user: named, open or scheduled, and not opened by them; found by the index of guests."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from errors import Refused, Unavailable
from runtime import sql
from setnode.activation import waiting as waiting_module
from sharding.ids import first_id
from tests.clock import ManualClock
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town
from tests.integration.setnode.test_switches import close
from wire.messages import Op

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


def TOWN() -> dict[str, Any]:  # noqa: N802 - read by the fixture
    return {"clock": ManualClock(datetime.now(UTC)), "sweep_after_s": 1e9}


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


@pytest.fixture
def user() -> str:
    return f"u{uuid.uuid4().hex[:7]}"


async def page(
    town: Town, user: str, before: int = 0, limit: int = 100, number: int = 0
) -> tuple[list[Any], int, bool]:
    rows, floor, complete = await town.caller.ask(town.nodes[number], Op.WAITING, [user, before, limit])
    for row in rows:
        row[2] = json.loads(row[2])
    return rows, floor, complete


async def found(town: Town, user: str) -> list[int]:
    answers = [await page(town, user, number=number) for number in range(2)]
    assert answers[0] == answers[1], "every server of the SET says the same"
    rows, floor, complete = answers[0]
    assert (floor, complete) == (0, True)
    return [row[0] for row in rows]


async def test_what_can_still_be_opened_and_nothing_else(town: Town, user: str) -> None:
    """Opened, sold out, canceled, expired, never named: gone from the list; open and scheduled stay, newest first."""
    others = [user, "ann", "bob"]
    stays = await town.create(300, 3, to=others)
    opened = await town.create(300, 3, to=others)
    sold_out = await town.create(200, 1, to=others)
    canceled = await town.create(300, 3, to=others)
    expiring = await town.create(300, 3, to=others, expires_in_s=5)
    spoken = await town.create(300, 1, to=[user], password="芝麻开门")
    free = await town.create(300, 3, password="芝麻开门")
    later = int((town.clock.now() + timedelta(hours=2)).timestamp() * 1000)
    scheduled = await town.create(300, 1, to=[user], opens_at_ms=later)
    assert set(await found(town, user)) == {stays, opened, sold_out, canceled, expiring, spoken, scheduled}
    await town.open(opened, user)
    await town.open(sold_out, "ann")
    await town.cancel(canceled, "sender")
    await town.open(free, user, password="wrong")  # counted as a guest who was not invited
    town.clock.advance(seconds=6)
    assert await found(town, user) == sorted([stays, spoken, scheduled], reverse=True)
    rows, _, _ = await page(town, user)
    cards = {row[0]: row[2] for row in rows}
    assert (cards[stays]["status"], cards[scheduled]["status"]) == ("open", "scheduled")
    assert (cards[stays]["sender"], cards[stays]["total_fen"], cards[stays]["claimed_count"]) == ("sender", 300, 0)
    assert all("best_luck" not in card for card in cards.values())
    assert user not in await found(town, "nobody")
    town.clock.advance(hours=3)
    (last,) = [row[2]["status"] for row in (await page(town, user))[0] if row[0] == scheduled]
    assert last == "open"


async def test_pages_end_where_nothing_is_left(town: Town, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of two give the same as one of a hundred; old invitations between them cost no row and hide none."""
    made = []
    for number in range(12):
        one = await town.create(100, 2, to=[user, "ann"])
        if number % 3:
            made.append(one)
        else:
            await town.open(one, user)
    monkeypatch.setattr(waiting_module, "MAX_CARDS", 3)
    newest_first = sorted(made, reverse=True)
    seen: list[int] = []
    before = 0
    for _ in range(20):
        rows, before, complete = await page(town, user, before, limit=2)
        assert complete
        seen += [row[0] for row in rows]
        if not before:
            break
    assert seen == newest_first
    monkeypatch.setattr(waiting_module, "WAITING_BLOCKS", 1)
    assert len((await page(town, user))[0]) < len(made), "looks at so many blocks and no more"
    assert (await page(town, user))[1] > 0


async def test_what_cannot_be_shown_is_said(town: Town, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With views closed, or its database on the way elsewhere, the answer is not complete; of another SET it is."""
    one = await town.create(100, 2, to=[user, "ann"])
    await close(town, "views")
    assert await page(town, user) == ([], 0, False)
    await close(town)
    for code, complete in (("being_moved", False), ("set_paused", False), ("wrong_set", True)):

        def refuse(*_: Any, code: str = code) -> None:
            raise Unavailable(code, "not here")

        monkeypatch.setattr(town.nodes[0].dispatcher, "_admit", refuse)
        assert await page(town, user) == ([], 0, complete)
    monkeypatch.undo()
    assert await found(town, user) == [one]


async def test_a_database_that_fails_is_no_empty_list(town: Town, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told that nothing waits because it could not be looked at."""
    await town.create(100, 2, to=[user, "ann"])

    async def broken(*_: Any) -> Any:
        raise OSError("gone")

    monkeypatch.setattr(waiting_module, "read_cards", broken)
    with pytest.raises(Unavailable) as refused:
        await page(town, user)
    assert refused.value.code == "database_unavailable"


async def test_it_is_found_by_its_index_on_the_days_that_count(town: Town, user: str) -> None:
    """The plan scans guest_user of the days asked for, and no leaf of another day; nothing is sorted."""
    await town.create(100, 2, to=[user, "ann"])
    connection = await asyncpg.connect(town.set_dsn)
    day = town.databases.day
    query = f"EXPLAIN {sql.read('setnode', 'invitations')}"
    for name, value in (
        ("$1", f"'{user}'"),
        ("$2", str(first_id(day))),
        ("$3", str(first_id(day) + 10**13)),
        ("$4", "5"),
    ):
        query = query.replace(name, value)
    await connection.execute("SET enable_seqscan = off")
    plan = "\n".join(row[0] for row in await connection.fetch(query))
    await connection.close()
    assert "Seq Scan" not in plan
    assert "Sort  (cost" not in plan
    assert f"guest_{day.day:02d}_user_id_envelope_id_idx" in plan
    for other in (day + timedelta(days=1), day + timedelta(days=2)):
        assert f"guest_{other.day:02d}_" not in plan


@pytest.mark.parametrize("args", [["u", 0, 0], ["u", 0, 101], ["", 0, 5], ["u", "0", 5], ["u", 0, 5.0]])
async def test_what_is_no_page_is_refused(town: Town, args: list[Any]) -> None:
    """Nothing is read for arguments that do not fit."""
    with pytest.raises(Refused):
        await town.caller.ask(town.nodes[0], Op.WAITING, args)
