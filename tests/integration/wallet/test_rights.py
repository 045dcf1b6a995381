"""What the wallet lets its callers do: by the role, and for a SET by what it holds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest

from errors import HongbaoError, Refused, Unavailable
from machine import ports
from sharding.ids import make_id
from sharding.topology import ServerSpec, SetSpec, Topology, change, dump, load
from sharding.topology.changes import successor
from tests.funds import DRAFT, HEADER
from tests.integration.setnode.fixtures import wallet_process
from tests.integration.wallet.fixtures import ledger_rows, wallet_database
from tests.link_keys import GATEWAY_KEY, OPERATOR_KEY, setnode_key
from wire.keys import LinkKey
from wire.link import Link
from wire.messages import FundStatus, Op, PayKind, PayStatus

__all__ = ["ledger_rows", "wallet_database"]

DAY = date(2026, 11, 21)
SLOTS = 20
WAIT_S = 20.0


def a_topology(**pins: str) -> Topology:
    """Two SETs; `pins` are databases by SET."""
    sets = tuple(SetSpec(f"set-{at}", (ServerSpec(f"set-{at}-a", f"http://127.0.0.1:{at}"),)) for at in (1, 2))
    return Topology(version=1, slots=SLOTS, sets=sets, wallet_url="http://127.0.0.1:3", pins=pins)


class Callers:
    """Links to one wallet, by who calls."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.links: dict[str, Link] = {}

    @contextlib.asynccontextmanager
    async def calling(self, **keys: LinkKey) -> AsyncIterator["Callers"]:
        self.links = {name: Link("wallet", self.url, key=key) for name, key in keys.items()}
        keeping = [asyncio.ensure_future(link.maintain()) for link in self.links.values()]
        try:
            async with asyncio.timeout(WAIT_S):
                while not all(link.up for link in self.links.values()):
                    await asyncio.sleep(0.01)
            yield self
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.wait(keeping)

    async def call(self, who: str, op: Op, *args: object) -> list[object] | HongbaoError:
        try:
            return await self.links[who].call(op, *args)
        except HongbaoError as error:
            return error


@pytest.fixture
async def callers(wallet_database: str, tmp_path: Path) -> AsyncIterator[Callers]:
    dump(a_topology(db_00="set-1", db_01="set-2"), tmp_path / "topology.json")
    port = ports.free_port()
    async with (
        wallet_process(wallet_database, port, tmp_path / "topology.json"),
        Callers(f"http://127.0.0.1:{port}").calling(
            gateway=GATEWAY_KEY, operator=OPERATOR_KEY, one=setnode_key("set-1"), two=setnode_key("set-2")
        ) as found,
    ):
        yield found


def arguments(op: Op, envelope_id: int) -> list[object]:
    order = [f"{envelope_id}.0", PayKind.CLAIM, "mallory", 100, envelope_id]
    return {
        Op.BALANCE: ["alice"],
        Op.ENTRIES: ["alice", 0, 10],
        Op.ENVELOPES: ["alice", "sent", 0, 10],
        Op.TOTALS: ["alice", 0, 2**40],
        Op.DEPOSIT: ["D1", "alice", 1_000],
        Op.FUND: ["ab" * 16, "terms", "alice", 500, envelope_id, HEADER, DRAFT],
        Op.PAY: [[order]],
        Op.FUNDS: [0, 2**50, 10],
        Op.PAID_OUT: [[envelope_id]],
        Op.PLACES: [20_000, [["mallory", "alice", envelope_id]], 1, 0],
        Op.GIVE_BACK: [20_000, [["mallory", envelope_id]]],
    }[op]


@pytest.mark.parametrize(
    ("who", "may"),
    [
        ("gateway", {Op.BALANCE, Op.ENTRIES, Op.ENVELOPES, Op.TOTALS}),
        ("operator", {Op.BALANCE, Op.ENTRIES, Op.ENVELOPES, Op.TOTALS, Op.DEPOSIT}),
        ("one", {Op.FUND, Op.PAY, Op.FUNDS, Op.PAID_OUT, Op.PLACES, Op.GIVE_BACK}),
    ],
)
async def test_each_role_may_ask_what_it_needs_and_nothing_else(
    callers: Callers, ledger_rows, who: str, may: set[Op]
) -> None:
    """Attack 2: a gateway reads, a setnode funds and pays, only an operator deposits; all else is `not_permitted`."""
    mine = make_id(DAY, 1, 7)
    asked = (Op.BALANCE, Op.ENTRIES, Op.ENVELOPES, Op.DEPOSIT, Op.FUND, Op.PAY, Op.FUNDS, Op.PAID_OUT)
    asked += Op.PLACES, Op.GIVE_BACK, Op.TOTALS
    for op in asked:
        answer = await callers.call(who, op, *arguments(op, mine))
        refused = isinstance(answer, Refused) and answer.code == "not_permitted"
        assert refused == (op not in may), (op, answer)
    if Op.DEPOSIT not in may:
        assert await ledger_rows.fetchval("SELECT count(*) FROM transfer") == 0


async def test_a_set_pays_for_its_own_envelopes_only(callers: Callers, ledger_rows) -> None:
    """Attack 11: the key of a SET takes and pays no money of an envelope that another SET holds, even among its own."""
    mine, theirs = make_id(DAY, 1, 7), make_id(DAY, 1, 17)
    await callers.call("operator", Op.DEPOSIT, "D1", "alice", 1_000)
    assert await callers.call("two", Op.FUND, *arguments(Op.FUND, theirs)) == [0, theirs, b""]
    for op, args in (
        (Op.FUND, ["cd" * 16, "terms", "alice", 400, theirs, HEADER, DRAFT]),
        (Op.PAY, [[arguments(Op.PAY, mine)[0][0], arguments(Op.PAY, theirs)[0][0]]]),
    ):
        answer = await callers.call("one", op, *args)
        assert isinstance(answer, Unavailable)
        assert (answer.code, answer.outcome_known) == ("topology_outdated", True)
    assert await callers.call("operator", Op.BALANCE, "mallory") == [0]
    assert await callers.call("operator", Op.BALANCE, "alice") == [500]
    paid = await callers.call("two", Op.PAY, *arguments(Op.PAY, theirs))
    assert paid == [[[0, None]]]
    assert await callers.call("operator", Op.BALANCE, "mallory") == [100]


async def test_a_set_gives_back_places_of_its_own_envelopes_only(callers: Callers) -> None:
    """Else the intruder in one SET could let users win as many shares of the others as they like."""
    mine, theirs = make_id(DAY, 1, 7), make_id(DAY, 1, 17)
    assert await callers.call("two", Op.PLACES, *arguments(Op.PLACES, theirs)) == [[0]]
    for op, args in (
        (Op.GIVE_BACK, [20_000, [["mallory", mine], ["mallory", theirs]]]),
        (Op.PLACES, [20_000, [["bob", "alice", theirs]], 1, 0]),
    ):
        answer = await callers.call("one", op, *args)
        assert isinstance(answer, Unavailable)
        assert (answer.code, answer.outcome_known) == ("topology_outdated", True)
    assert await callers.call("one", Op.PLACES, *arguments(Op.PLACES, mine)) == [[1]]


async def test_a_database_that_has_moved_is_paid_for_by_its_new_set(callers: Callers, tmp_path: Path) -> None:
    """Right after a move the new SET is believed: the wallet reads the topology again before it says no."""
    theirs = make_id(DAY, 1, 17)
    await callers.call("operator", Op.DEPOSIT, "D1", "alice", 1_000)
    assert isinstance(await callers.call("one", Op.FUND, *arguments(Op.FUND, theirs)), Unavailable)
    change(tmp_path / "topology.json", lambda old: successor(old, pins={"db_00": "set-1", "db_01": "set-1"}))
    assert load(tmp_path / "topology.json").version == 2
    async with asyncio.timeout(WAIT_S):
        while isinstance(answer := await callers.call("one", Op.FUND, *arguments(Op.FUND, theirs)), Unavailable):
            await asyncio.sleep(0.05)
    assert answer == [0, theirs, b""]


async def test_an_order_number_is_paid_for_its_own_envelope_only(callers: Callers, ledger_rows) -> None:
    """Nobody uses up the order number of another envelope's winner, of a create or, as operator, of either."""
    mine, theirs = make_id(DAY, 1, 7), make_id(DAY, 1, 17)
    await callers.call("operator", Op.DEPOSIT, "D1", "alice", 2_000)
    await callers.call("one", Op.FUND, "11" * 16, "terms", "alice", 500, mine, HEADER, DRAFT)
    await callers.call("two", Op.FUND, "22" * 16, "terms", "alice", 500, theirs, HEADER, DRAFT)
    for number in (f"{theirs}.0", "F" + "33" * 16, f"{mine}.", f"{mine}.x", f"{mine}.٣", f"{mine}", f"{mine}.0\0"):
        answer = await callers.call("one", Op.PAY, [[number, PayKind.CLAIM, "mallory", 100, mine]])
        assert isinstance(answer, Refused), number
        assert answer.code == "malformed_request"
    for number in (f"{theirs}.0", "F" + "33" * 16):
        answer = await callers.call("operator", Op.DEPOSIT, number, "alice", 1)
        assert isinstance(answer, Refused), number
        assert answer.code == "malformed_request"
    assert await callers.call("two", Op.PAY, [[f"{theirs}.0", PayKind.CLAIM, "bob", 100, theirs]]) == [
        [[PayStatus.PAID, None]]
    ]
    answer = await callers.call("two", Op.FUND, "33" * 16, "terms", "alice", 500, theirs + 1_000, HEADER, DRAFT)
    assert answer[0] == FundStatus.DONE


async def test_no_money_is_taken_for_an_id_of_no_day(callers: Callers, ledger_rows) -> None:
    """No header could be written for it, so its money would lie in escrow for good."""
    await callers.call("operator", Op.DEPOSIT, "D1", "alice", 1_000)
    answer = await callers.call("one", Op.FUND, "44" * 16, "terms", "alice", 50, 2602310000001000007, HEADER, DRAFT)
    assert isinstance(answer, Refused)
    assert answer.code == "malformed_request"
    assert await callers.call("operator", Op.BALANCE, "alice") == [1_000]
