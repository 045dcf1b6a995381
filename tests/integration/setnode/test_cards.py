"""The cards of envelopes in lists: the same from memory and from the tables, and only for those who may see them."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from errors import Refused, Unavailable
from runtime import postgres
from setnode.activation import cards as cards_module
from setnode.service import Setnode
from sharding.ids import make_id, slot_of
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town
from tests.integration.setnode.test_switches import close
from wire.messages import Op

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


async def cards(town: Town, ids: list[int], user: str, node: Setnode) -> list[Any]:
    (shown,) = await town.caller.ask(node, Op.CARDS, [user, ids])
    return [None if one is None else json.loads(one) for one in shown]


def sleep(town: Town, ids: list[int]) -> None:
    """Have no server hold any of these in memory."""
    for node in town.nodes:
        node.registry.retire(lambda one: one in ids)
        assert not any(one in node.registry for one in ids)


async def some_of_each(town: Town) -> dict[str, int]:
    made = {"sold out": await town.create(500, 5, greeting="恭喜发财 🧧")}
    for n in range(5):
        await town.open(made["sold out"], f"u{n}")
    made["even"] = await town.create(40, 4, kind="equal", split="equal")
    for n in reversed(range(4)):
        await town.open(made["even"], f"u{n}")
    made["canceled"] = await town.create(500, 5)
    await town.open(made["canceled"], "u0")
    await town.cancel(made["canceled"], "sender")
    made["untouched"] = await town.create(100, 3)
    made["running"] = await town.create(1_000, 10)
    for n in range(4):
        await town.open(made["running"], f"u{n}")
    made["named"] = await town.create(200, 2, to=["ann", "u0"])
    later = int((town.clock.now() + timedelta(hours=2)).timestamp() * 1000)
    made["scheduled"] = await town.create(300, 1, opens_at_ms=later, to=["u0"])
    return made


USERS = ("sender", "u0", "u1", "u3", "ann", "eve")


async def test_memory_and_tables_show_the_same_and_what_a_detail_says(town: Town) -> None:
    """Each member is that of the detail; best luck is the viewer's alone, of equals the first's."""
    made = await some_of_each(town)
    ids = list(made.values())
    for node in town.nodes:
        known: dict[str, list[Any]] = {}
        for user in USERS:
            for one in ids:  # now it is in memory here, and up to date where this server owns it
                try:
                    detail = (await town.caller.ask(node, Op.DETAIL, [one, user, False]))[0]
                except Refused:
                    detail = None
                (card,) = await cards(town, [one], user, node)
                assert (card is None) == (detail is None), (user, one)
                if card is None:
                    continue
                best_luck = card.pop("best_luck", None)
                assert card == {name: detail[name] for name in card}
                assert ("refund_fen" in card) == ("refund_fen" in detail)
                holds = any(claim["user"] == user for claim in detail["claims"])
                best = detail.get("best_luck", {}).get("user") == user
                assert best_luck == (best if holds else None)
            known[user] = await cards(town, ids, user, node)
        sleep(town, ids)
        for user in USERS:
            assert await cards(town, ids, user, node) == known[user], user
        assert not any(one in node.registry for one in ids), "a list wakes nobody"
    assert [one["best_luck"] for one in await cards(town, [made["even"]], "u3", node)] == [True]
    assert [one["best_luck"] for one in await cards(town, [made["even"]], "u0", node)] == [False]


async def test_only_what_is_committed_is_counted(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opens that are decided and not yet written are in no card, from memory and from the tables."""
    one = await town.create(1_000, 10)
    node = town.owner(one)
    await town.open(one, "first")
    before = await cards(town, [one], "sender", node)
    written = asyncio.Event()
    run_inline = postgres.Session.run_inline

    async def held(*args: Any) -> Any:
        await written.wait()
        return await run_inline(*args)

    monkeypatch.setattr(postgres.Session, "run_inline", held)
    opening = asyncio.gather(*(town.open(one, f"more-{n}") for n in range(3)))
    async with asyncio.timeout(5):
        while len(node.registry.peek(one).log.winners) < 4:
            await asyncio.sleep(0.001)
    assert await cards(town, [one], "sender", node) == before
    assert await cards(town, [one], "sender", town.other(one)) == before
    written.set()
    await opening
    assert (await cards(town, [one], "sender", node))[0]["claimed_count"] == 4


async def test_one_statement_reads_a_page(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many envelopes, slots and days: one read and its seal; what was never made is None."""
    ids = [await town.create(100, 2) for _ in range(30)]
    # A day without tables, and one of the future.
    ids += [make_id(town.databases.day - timedelta(days=n), 5, slot_of(ids[0])) for n in (-1, 20)]
    sleep(town, ids)
    node = town.nodes[0]
    ran: list[Any] = []
    run = postgres.Session.run

    async def counted(self: postgres.Session, work: Any, deadline_s: float) -> Any:
        ran.extend([1] * (self is node.lists._session))
        return await run(self, work, deadline_s)

    monkeypatch.setattr(postgres.Session, "run", counted)
    shown = await cards(town, ids, "sender", node)
    assert [one is None for one in shown] == [False] * 30 + [True] * 2
    assert len(ran) == 1


async def test_views_are_closed(town: Town) -> None:
    """While operators have closed views, only what is in memory is shown."""
    known, forgotten = await town.create(100, 2), await town.create(100, 2)
    sleep(town, [forgotten])
    await close(town, "views")
    node = town.owner(known)
    assert [one is None for one in await cards(town, [known, forgotten], "sender", node)] == [False, True]
    await close(town)
    assert None not in await cards(town, [known, forgotten], "sender", node)


async def test_a_database_that_is_slow_or_away_costs_only_what_it_has(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in memory is shown when the time is up; the others are None; the next list is whole again."""
    known, forgotten = await town.create(100, 2), await town.create(100, 2)
    sleep(town, [forgotten])
    node = town.owner(known)
    monkeypatch.setattr("setnode.activation.list_reader.CARDS_S", 0.2)
    monkeypatch.setattr(cards_module, "CARDS_S", 0.2)

    async def slow(*_: Any) -> Any:
        await asyncio.sleep(5)

    async def broken(*_: Any) -> Any:
        raise OSError("gone")

    for fault in (slow, broken):
        monkeypatch.setattr(cards_module, "read_cards", fault)
        shown = await cards(town, [known, forgotten], "sender", node)
        assert [one is None for one in shown] == [False, True]
    monkeypatch.undo()
    assert None not in await cards(town, [known, forgotten], "sender", node)


async def test_a_row_that_cannot_be_shown_hides_no_other(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows edited by hand may hold anything: that card alone is missing."""
    spoilt, well = await town.create(100, 2), await town.create(100, 2)
    sleep(town, [spoilt, well])
    real = cards_module.card_of_row

    def card_of_row(row: Any, now_ms: int) -> bytes:
        if row["envelope_id"] == spoilt:
            raise ValueError("no such kind")
        return real(row, now_ms)

    monkeypatch.setattr(cards_module, "card_of_row", card_of_row)
    assert [one is None for one in await cards(town, [spoilt, well], "sender", town.nodes[0])] == [True, False]


async def test_too_many_lists_still_show_what_is_in_memory(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full queue nothing is read, and nobody waits for it."""
    known, forgotten = await town.create(100, 2), await town.create(100, 2)
    sleep(town, [forgotten])
    node = town.owner(known)
    monkeypatch.setattr(node.lists._queue, "full", lambda: True)
    assert [one is None for one in await cards(town, [known, forgotten], "sender", node)] == [False, True]
    with pytest.raises(Unavailable) as refused:
        await town.caller.ask(node, Op.WAITING, ["sender", 0, 10])
    assert refused.value.code == "busy"


@pytest.mark.parametrize(
    "args", [["sender", []], ["sender", [1] * 101], ["sender", "1"], ["sender", [1.0]], ["", [1]], ["sender", [99]]]
)
async def test_what_is_no_list_is_refused(town: Town, args: list[Any]) -> None:
    """Nothing is read for arguments that do not fit."""
    with pytest.raises(Refused):
        await town.caller.ask(town.nodes[0], Op.CARDS, args)
