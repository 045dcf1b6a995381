"""Messages between releases: the table of their shapes is what is sent, it only grows, and what grows harms nobody."""

import asyncio
import copy
import itertools
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from client import Hongbao
from gateway.identity.tokens import make_token
from published.follower import Follower
from sharding.topology import load
from tests.integration.moving.fixtures import KEY, WAIT_S, Land, land
from tests.integration.wire.message_table import breaks, table
from wire import server
from wire.messages import LIVE, Op
from wire.shapes.fields import Fields
from wire.shapes.of_sets import LiveNotice
from wire.shapes.table import MESSAGES
from wire.wallet import Order, WalletClient

__all__ = ["land"]

LAST = json.loads(Path(__file__).with_name("messages_v2.json").read_text())
APPENDED = "appended by a later release"


def test_nothing_of_the_last_release_s_messages_was_removed_moved_or_changed_in_type() -> None:
    """What is appended may be missing; a release before it neither fails at it nor misreads it."""
    assert list(breaks(LAST, table())) == []


def _without(new: dict[str, Any]) -> None:
    new["args"]["DETAIL"].pop()


def _in_another_order(new: dict[str, Any]) -> None:
    new["args"]["OPEN"].insert(0, new["args"]["OPEN"].pop())


def _of_another_type(new: dict[str, Any]) -> None:
    new["replies"]["BALANCE"][0] = "balance_fen: str"


def _that_must_be(new: dict[str, Any]) -> None:
    new["rows"]["OrderRow"].append("memo: str")


def _without_an_operation(new: dict[str, Any]) -> None:
    del new["args"]["GRAB"]


def _with_another_number(new: dict[str, Any]) -> None:
    new["numbers"]["FundStatus"]["REPLAYED"] = 7


@pytest.mark.parametrize(
    "change",
    [_without, _in_another_order, _of_another_type, _that_must_be, _without_an_operation, _with_another_number],
)
def test_a_change_that_an_older_end_would_misread_is_named(change: Callable[[dict[str, Any]], None]) -> None:
    """Each way to break the rule is found by the test above."""
    new = copy.deepcopy(table())
    change(new)
    assert list(breaks(LAST, new))


def test_what_is_appended_with_a_default_is_no_break() -> None:
    """Neither is an operation or a number that is new."""
    new = copy.deepcopy(table())
    new["args"]["OPEN"].append("device: str or none, may be missing")
    new["args"]["LATER"] = ["x: int"]
    new["numbers"]["FundStatus"]["LATER"] = 99
    assert list(breaks(LAST, new)) == []


class Tap:
    """Sees what servers receive and send, as it is on the wire; may append to all of it, as a later release would."""

    def __init__(self, patch: pytest.MonkeyPatch, *, appends: bool = False) -> None:
        self.seen: set[str] = set()
        self.wrong: list[str] = []
        self._appends = appends
        self._asked: dict[tuple[int, int], Op] = {}
        dispatch, frame = server._dispatch, server.Caller._frame

        def received(handler: Any, caller: server.Caller, requests: list[list[Any]]) -> None:
            dispatch(handler, caller, [self._request(caller, one) for one in requests])

        def sent(caller: server.Caller, batch: list[list[Any]]) -> bytes:
            return frame(
                caller, [self._reply(caller, msgspec.msgpack.decode(frame(caller, [one]))[0]) for one in batch]
            )

        patch.setattr(server, "_dispatch", received)
        patch.setattr(server.Caller, "_frame", sent)

    def _request(self, caller: server.Caller, request: list[Any]) -> list[Any]:
        number, op, *args = request
        self._asked[id(caller), number] = Op(op)
        return [number, op, *self._checked(f"{Op(op).name} args", args, MESSAGES[Op(op)].args)]

    def _reply(self, caller: server.Caller, reply: list[Any]) -> list[Any]:
        number, status, *values = reply
        if number == 0:
            if values and values[0] == LIVE:
                values = self._checked("LIVE", values, LiveNotice)
        elif status == 0 and (op := self._asked.pop((id(caller), number), None)) is not None:
            kind = MESSAGES[op].reply
            assert kind is not None
            values = self._checked(f"{op.name} reply", values, kind)
        return [number, status, *values]

    def _checked(self, what: str, values: list[Any], kind: type[Fields]) -> list[Any]:
        """Hold values against their shape; return them, with more behind if we append."""
        self.seen.add(what)
        try:
            msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            self.wrong.append(f"{what}: {error}")
        if len(values) > len(kind.__struct_fields__):
            self.wrong.append(f"{what}: {len(values)} values, and the shape has fewer")
        return self._longer(values, kind) if self._appends else values

    def _longer(self, values: list[Any], kind: type[Fields]) -> list[Any]:
        hints = get_type_hints(kind)
        made = []
        for name, value in zip(kind.__struct_fields__, values, strict=False):
            row = next(iter(get_args(hints[name])), None)
            rows = isinstance(value, list) and isinstance(row, type) and issubclass(row, Fields)
            made.append([self._longer(one, row) for one in value] if rows else value)  # type: ignore[arg-type]
        # Only behind a whole list of values: what may be missing cannot be skipped.
        return [*made, APPENDED] if len(made) == len(kind.__struct_fields__) else made


async def everything(land: Land) -> None:
    """Use each operation at least once, over HTTP where there is a way."""
    await land.tables()
    await land.wallet.deposit(f"D{uuid.uuid4().hex}", "ann", 100_000)
    assert await land.wallet.balance("ann") == 100_000
    async with Hongbao(f"http://127.0.0.1:{land.gateway.port}") as hongbao:
        ann, bob, eve = (
            hongbao.user(make_token(KEY, who, ttl_s=3600, clock=land.clock)) for who in ("ann", "bob", "eve")
        )
        made = await ann.create(total_fen=200, count=2, greeting="恭喜")
        given = await ann.create(total_fen=100, count=1, to=["bob"])
        dropped = await ann.create(total_fen=300, count=3, password="secret")
        assert (await bob.grab(made)).result == "openable"
        async with asyncio.timeout(WAIT_S):
            changes = ann.watch(made)
            assert (await anext(changes)).claimed_count == 0
            won = (await bob.open(made)).amount_fen
            assert (await anext(changes)).claimed_count == 1
            await changes.aclose()  # type: ignore[attr-defined]
        assert (await bob.open(made)).amount_fen == won
        assert (await eve.open(dropped, password="wrong")).result == "wrong_password"
        assert [one.user for one in (await ann.detail(made)).claims] == ["bob"]
        assert [one.envelope_id async for one in bob.waiting()] == [given.envelope_id]
        assert (await ann.cancel(dropped)).status == "canceled"
        assert {one.envelope_id async for one in ann.sent()} == {one.envelope_id for one in (made, given, dropped)}
        assert (await land.settled()).holds
        assert [one.envelope_id async for one in bob.received()] == [made.envelope_id]
        assert await bob.balance_fen() == won
        assert [one.amount_fen async for one in bob.entries()] == [won]
        year = land.today.year
        assert ((await bob.totals(year)).received_fen, (await bob.totals(year)).received_count) == (won, 1)
    envelope_id = int(made.envelope_id)
    home = load(land.path).set_for(envelope_id).name
    await Follower(land.path).ask(land.nodes[home].wallet_link)
    wallet = WalletClient(land.nodes[home].wallet_link)
    day = (land.today.toordinal()) - 719_163
    assert await wallet.places(day, [("bob", "ann", envelope_id)], 1, 0) == [0]
    await wallet.give_back(day, [("bob", envelope_id)])
    assert await wallet.paid_out([envelope_id]) == {envelope_id}
    assert (envelope_id, "ann", 200) in [fund[1:] for fund in await wallet.funds(0, 2**52, 10)]
    assert (await wallet.pay([Order(f"{envelope_id}.0", 0, "bob", won or 0, envelope_id)]))[0].status == 0


async def test_the_table_is_what_is_sent(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation is used, and each list of values on the wire has the fields of its shape, and no more."""
    tap = Tap(monkeypatch)
    await everything(land)
    expected = {f"{op.name} args" for op in Op if MESSAGES[op].reply}
    expected |= {f"{op.name} reply" for op in Op if MESSAGES[op].reply} | {"LIVE"}
    assert tap.wrong == []
    assert expected - tap.seen == set()


async def test_what_a_later_release_appends_is_ignored(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """One value more behind all arguments, replies and rows of both directions: everything goes as before."""
    tap = Tap(monkeypatch, appends=True)
    await everything(land)
    assert tap.wrong == []


async def test_what_may_be_missing_is_not_missed(land: Land) -> None:
    """DETAIL without its page is answered with the first one, and without versions with the whole."""
    await land.tables()
    await land.wallet.deposit(f"D{uuid.uuid4().hex}", "ann", 1_000)
    async with Hongbao(f"http://127.0.0.1:{land.gateway.port}") as hongbao:
        made = await hongbao.user(make_token(KEY, "ann", ttl_s=3600, clock=land.clock)).create(total_fen=200, count=2)
    assert land.gateway.sets is not None
    envelope_id = int(made.envelope_id)
    home = load(land.path).set_for(envelope_id)
    link = land.gateway.sets.routing.servers.link(home.server_names[0])
    for missing in itertools.accumulate([[0, 100], [["none"]]], initial=[envelope_id, "ann", True]):
        assert (await link.call(Op.DETAIL, *missing))[1] is True
