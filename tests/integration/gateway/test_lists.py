"""A user's lists: what their rows show of the envelopes, and what is answered while a SET is away."""

import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from client import calls
from errors import Unavailable
from gateway.sets import lists as lists_module
from tests.integration.gateway.fixtures import Client, Door, RealStack, client, door, silent, some_id
from tests.integration.gateway.test_contract import paid
from wire.messages import Op
from wire.server import Caller

__all__ = ["client", "door"]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


def someone(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:12]}"


async def listed(client: Client, role: str, user: str, **headers: str) -> dict[str, dict[str, Any]]:
    status, _, page = await client.send(calls.envelopes(role), user, **headers)
    assert status == 200
    return {one["envelope_id"]: one for one in page["items"]}


async def test_rows_can_be_drawn_without_another_question(client: Client, stack: RealStack) -> None:
    """Each row of sent and received has what the detail says of it, and the receiver's best luck once it is known."""
    sender, lucky, late = someone("sender"), someone("lucky"), someone("late")
    await stack.deposit(sender, 100_000)
    even = {"kind": "equal", "greeting": "恭喜发财 🧧"}
    sold = await client.create(sender, total_fen=10, count=2, **even)
    running = await client.create(sender, total_fen=300, count=3, **even)
    canceled = await client.create(sender, total_fen=400, count=4, kind="lucky")
    opens_at = datetime.now(UTC) + timedelta(hours=1)
    later = await client.create(sender, total_fen=500, count=5, kind="lucky", opens_at=opens_at)
    for user in (lucky, late):
        assert (await client.open(user, sold))["result"] == "opened"
    assert (await client.open(lucky, running))["result"] == "opened"
    won = (await client.open(lucky, canceled))["amount_fen"]
    await client.send(calls.cancel(canceled), sender)
    await paid(client, lucky, 5 + 100 + won)
    sent = await listed(client, "sent", sender)
    assert list(sent) == [one.envelope_id for one in (later, canceled, running, sold)]
    details = {one: (await client.send(calls.detail(one), sender))[2] for one in sent}
    for one, item in sent.items():
        own = {name: item.pop(name) for name in ("amount_fen", "at")}
        assert own["amount_fen"] == details[one]["total_fen"]
        assert item == {name: details[one][name] for name in item}
    assert [item["status"] for item in sent.values()] == ["scheduled", "canceled", "open", "sold_out"]
    assert [item.get("refund_fen") for item in sent.values()] == [None, 400 - won, None, None]
    received = await listed(client, "received", lucky)
    assert {one: item["best_luck"] for one, item in received.items()} == {
        sold.envelope_id: True, running.envelope_id: False, canceled.envelope_id: False
    }  # fmt: skip
    assert received[canceled.envelope_id]["amount_fen"] == won
    await paid(client, late, 5)
    assert (await listed(client, "received", late))[sold.envelope_id]["best_luck"] is False


class Shelf:
    """What the scripted wallet lists, and what the scripted servers show of it."""

    def __init__(self, door: Door, number: int) -> None:
        self.ids = [int(some_id()) for _ in range(number)]
        door.wallet.answer = self.listing
        for peer in door.servers.values():
            peer.answer = self.show

    def listing(self, peer: Caller, number: int, op: int, args: list[Any]) -> None:
        assert (op, args[1]) == (Op.ENVELOPES, "sent")
        peer.reply(number, [[900 - place, one, 100, 0] for place, one in enumerate(self.ids)])

    def show(self, peer: Caller, number: int, op: int, args: list[Any]) -> None:
        assert op == Op.CARDS
        peer.reply(number, [msgspec.json.encode({"sender": args[0], "status": "open"}) for _ in args[1]])


def statuses(items: dict[str, dict[str, Any]]) -> Counter[str]:
    return Counter(item["status"] for item in items.values())


async def test_a_page_is_one_call_to_each_server(door: Door) -> None:
    """Twenty rows cost two calls, each with the envelopes of its server; the order is the wallet's."""
    shelf = Shelf(door, 20)
    items = await listed(door, "sent", "alice")
    assert list(items) == [str(one) for one in shelf.ids]
    assert statuses(items) == {"open": 20}
    asked = [peer.asked for peer in door.servers.values()]
    assert [len(one) for one in asked] == [1, 1]
    assert sorted(asked[0][0][1][1] + asked[1][0][1][1]) == sorted(shelf.ids)


async def test_a_server_that_says_nothing_leaves_out_its_rows(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is answered at the deadline: what has come is shown, the others are unavailable, in their places."""
    monkeypatch.setattr(lists_module, "CARDS_S", 0.3)
    shelf = Shelf(door, 20)
    door.servers["a"].answer = silent
    items = await listed(door, "sent", "alice")
    assert list(items) == [str(one) for one in shelf.ids]
    theirs = {str(one) for one in door.servers["a"].asked[0][1][1]}
    assert {one for one, item in items.items() if item["status"] == "unavailable"} == theirs
    assert all(set(items[one]) == {"envelope_id", "amount_fen", "at", "status"} for one in theirs)


async def test_no_server_at_all_is_no_failed_page(door: Door) -> None:
    """With the whole SET away every row is there, and unavailable."""
    Shelf(door, 5)
    for peer in door.servers.values():
        await peer.stop()
    assert statuses(await listed(door, "sent", "alice")) == {"unavailable": 5}


async def test_a_server_that_stops_hands_its_rows_over(door: Door) -> None:
    """What a stopping server has not begun is asked of the next one: no row is missing."""
    Shelf(door, 20)

    def stopping(*_: Any) -> None:
        raise Unavailable("stopping", "going")

    door.servers["a"].answer = stopping
    assert statuses(await listed(door, "sent", "alice")) == {"open": 20}


async def test_a_refusal_costs_the_rows_of_that_server(door: Door) -> None:
    """Too many lists at one server: its rows are unavailable, and it is not taken for lost."""
    Shelf(door, 20)

    def busy(*_: Any) -> None:
        raise Unavailable("busy", "too many")

    door.servers["a"].answer = busy
    found = statuses(await listed(door, "sent", "alice"))
    assert found["open"] + found["unavailable"] == 20
    assert min(found.values()) > 0
    assert "a" in door.gateway.sets.routing.servers.alive


async def test_an_empty_list_asks_no_set(door: Door) -> None:
    """A user who sent nothing costs the SETs nothing."""
    Shelf(door, 0)
    assert await listed(door, "sent", "alice") == {}
    assert not any(peer.asked for peer in door.servers.values())


async def walk(client: Client, user: str, limit: int) -> list[str]:
    seen: list[str] = []
    cursor = None
    for _ in range(30):
        _, _, page = await client.send(calls.envelopes("waiting", cursor=cursor, limit=limit), user)
        assert "incomplete" not in page
        seen += [one["envelope_id"] for one in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            return seen
    raise AssertionError("the list has no end")


async def test_what_waits_for_me_over_two_sets(client: Client, stack: RealStack) -> None:
    """Named, not opened, still open: newest first over both SETs, page by page; an open takes it off the list."""
    sender, user = someone("sender"), someone("user")
    await stack.deposit(sender, 100_000)
    terms = {"kind": "equal", "total_fen": 200, "count": 2, "to": [user, "ann"], "greeting": "年年有余"}
    made = [await client.create(sender, **terms) for _ in range(12)]
    await client.create(sender, **{**terms, "to": ["bob", "ann"]})
    newest_first = sorted((one.envelope_id for one in made), reverse=True)
    for limit in (1, 5, 100):
        assert await walk(client, user, limit) == newest_first
    status, _, page = await client.send(calls.envelopes("waiting"), user)
    item = page["items"][0]
    assert (status, item["sender"], item["greeting"], item["status"]) == (200, sender, "年年有余", "open")
    assert item["at"] == (await client.send(calls.detail(item["envelope_id"]), sender))[2]["created_at"]
    assert not {"amount_fen", "best_luck"} & set(item)
    for one in made[:6]:
        assert (await client.open(user, one))["result"] == "opened"
    left = sorted((one.envelope_id for one in made[6:]), reverse=True)
    assert await walk(client, user, 4) == left
    assert len(await walk(client, "ann", 50)) >= 12
    sent = (await client.send(calls.envelopes("sent", limit=1), sender))[2]["next_cursor"]
    other = await client.send(calls.envelopes("waiting", cursor=sent), user)
    assert (other[0], other[2]["code"]) == (422, "malformed_cursor")


def shelf_of(door: Door, *pages: tuple[list[int], int, bool]) -> None:
    """Have the servers answer WAITING with these rows, floor and completeness, in turn."""
    turn = iter(pages)

    def show(peer: Caller, number: int, op: int, args: list[Any]) -> None:
        assert op == Op.WAITING
        ids, floor, complete = next(turn)
        peer.reply(number, [[one, 0, b'{"status":"open"}'] for one in ids], floor, complete)

    for peer in door.servers.values():
        peer.answer = show


async def test_a_set_that_is_away_is_said(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting is answered without the SET that says nothing, or only a part: incomplete is true."""
    waiting = calls.envelopes("waiting")
    shelf_of(door, ([7], 0, True), ([7], 0, False))
    assert "incomplete" not in (await door.send(waiting))[2]
    assert (await door.send(waiting))[2]["incomplete"] is True
    assert sum(len(peer.asked) for peer in door.servers.values()) == 2, "one server of the SET"
    monkeypatch.setattr(lists_module, "CARDS_S", 0.2)
    for peer in door.servers.values():
        peer.answer = silent
    assert (await door.send(waiting))[2] == {"items": [], "next_cursor": None, "incomplete": True}
    for peer in door.servers.values():
        await peer.stop()
    status, _, page = await door.send(waiting)
    assert (status, page) == (200, {"items": [], "next_cursor": None, "incomplete": True})


def test_pages_of_sets_are_merged_down_to_where_all_have_looked() -> None:
    """Below the highest floor a SET may have more: those rows come with the next page, so none is skipped."""

    def rows(*ids: int) -> list[list[Any]]:
        return [[one, 0, b"{}"] for one in ids]

    merged = lists_module._merged([[rows(90, 70, 50), 50, True], [rows(80, 10), 0, True]], 3, complete=True)
    assert ([row[0] for row in merged.rows], merged.next_before, merged.complete) == ([90, 80, 70], 70, True)
    merged = lists_module._merged([[rows(90), 60, True], [rows(80, 10), 0, True]], 3, complete=True)
    assert ([row[0] for row in merged.rows], merged.next_before) == ([90, 80], 60)
    merged = lists_module._merged([[rows(90), 0, True], [rows(80, 10), 0, False]], 3, complete=True)
    assert ([row[0] for row in merged.rows], merged.next_before, merged.complete) == ([90, 80, 10], 0, False)
    assert lists_module._merged([], 3, complete=False) == ([], 0, False)


async def test_a_year_in_sums(client: Client, stack: RealStack) -> None:
    """Sent, refunded and received of this year, to the fen; of another year nothing; in whole years only."""
    sender, user = someone("sender"), someone("user")
    await stack.deposit(sender, 100_000)
    even = {"kind": "equal", "total_fen": 300, "count": 3}
    made = [await client.create(sender, **even) for _ in range(2)]
    for one in made:
        await client.open(user, one)
    await client.send(calls.cancel(made[0]), sender)
    await paid(client, user, 200)
    await paid(client, sender, 100_000 - 600 + 200)
    year = int(made[0].envelope_id[:2]) + 2000
    nothing = {"received_count": 0, "received_fen": 0, "sent_count": 0, "sent_fen": 0, "refunded_fen": 0}

    async def totals(who: str, year: int) -> Any:
        return (await client.send(calls.totals(year), who))[2]

    sent = {**nothing, "sent_count": 2, "sent_fen": 600, "refunded_fen": 200}
    assert await totals(sender, year) == {"year": year, **sent}
    assert await totals(user, year) == {"year": year, **nothing, "received_count": 2, "received_fen": 200}
    assert await totals(user, year - 1) == {"year": year - 1, **nothing}
    assert await totals(someone("nobody"), year) == {"year": year, **nothing}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "malformed_year"),
        *(
            (f"?year={one}", "malformed_year")
            for one in ("2009", "2093", "26", "02026", "+2026", "20_6", "\uff12\uff10\uff12\uff16", "")
        ),
        ("?year=2026&year=2026", "repeated_parameter"),
        ("?year=2026&limit=5", "unknown_parameter"),
    ],
)
async def test_what_is_no_year(door: Door, query: str, code: str) -> None:
    """The wallet is not asked for it."""
    assert (await door.call("GET", f"/v1/me/totals{query}"))[2]["code"] == code
    assert not door.wallet.asked
