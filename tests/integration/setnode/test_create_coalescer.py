"""Creates that come together: each gets its own answer, whatever becomes of those beside it."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from errors import HongbaoError, Refused, Unavailable
from setnode.creation import coalescer
from setnode.creation.coalescer import CreateCoalescer
from setnode.service import Setnode
from sharding.ids import business_date, make_id, serial_of, slot_of
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town
from wire.messages import Op

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
FAR = business_date(datetime.now(UTC)) + timedelta(days=9)


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


def crowds_of(node: Setnode) -> CreateCoalescer:
    return node.dispatcher._coalescer


def ask(town: Town, args: list[Any]) -> "asyncio.Future[list[Any]]":
    """Ask the first server; all that is asked without an await between goes together."""
    return town.caller.ask(town.nodes[0], Op.CREATE, args)


async def answers_of(asked: list["asyncio.Future[list[Any]]"]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 10)


def held_back(town: Town, patch: pytest.MonkeyPatch, sender: str) -> Callable[[], None]:
    """The wallet's answer to `sender` waits until the returned function is called."""
    wallet, loop = town.nodes[0].creator._wallet, asyncio.get_running_loop()
    fund, released = wallet.fund, loop.create_future()

    def slowly(create_key, fingerprint, user, *payment):
        paying = fund(create_key, fingerprint, user, *payment)

        async def later():
            await released
            return await paying

        return asyncio.ensure_future(later()) if user == sender else paying

    patch.setattr(wallet, "fund", slowly)
    return lambda: released.set_result(None)


async def paid_crowd(town: Town, name: str, number: int) -> list[list[Any]]:
    people = [f"{name}{n}" for n in range(number)]
    for person in people:
        await town.deposit(person, 1_000)
    return [town.create_args(person, 1_000, 5, name) for person in people]


async def test_everybody_of_a_crowd_hears_what_became_of_his_own(town: Town, monkeypatch) -> None:
    """New, repeated, twice at once, no money, another's key, another SET's ID, a day that is far: in one turn."""
    usual = await paid_crowd(town, "mix", 5)
    (_, stands, first), *_ = await answers_of([ask(town, usual[0])])
    poor = town.create_args("mix-poor", 1_000, 5, "mix")
    reused = town.create_args("mix0", 900, 5, "mix")
    far = town.create_args("mix-far", 1_000, 5, "mix")
    far[3] = [make_id(FAR, serial_of(one), slot_of(one)) for one in far[3]]
    node = town.nodes[0]
    moved = usual[4][3][0]
    crowd = [usual[1], poor, usual[0], usual[2], far, reused, usual[3], usual[3], usual[4], [*usual[1][:4], {}]]
    with monkeypatch.context() as patch:
        patch.setattr(node.days, "has_tables", AsyncMock(return_value=True))
        patch.setattr(node.creator, "_holds", lambda envelope_id: envelope_id != moved)
        answers = await answers_of([ask(town, args) for args in crowd])
    assert [answers[n][:2] for n in (0, 3)] == [[False, usual[1][3][0]], [False, usual[2][3][0]]]
    assert answers[2] == [True, stands, first]
    codes = {n: error.code for n, error in enumerate(answers) if isinstance(error, HongbaoError)}
    assert codes == {
        1: "insufficient_funds", 4: "clocks_differ", 5: "idempotency_key_reused", 9: "malformed_request",
    }  # fmt: skip
    assert sorted(answers[n][0] for n in (6, 7)) == [False, True]
    assert answers[6][1:] == answers[7][1:]
    assert answers[8] == [True, moved, None]
    assert await town.scalar("SELECT count(*) FROM envelope WHERE sender LIKE 'mix%'") == 4
    assert crowds_of(node)._in_flight == 0
    assert (await answers_of([ask(town, usual[4])]))[0][:2] == [True, moved]


async def test_who_has_paid_is_not_kept_waiting_for_those_behind(town: Town, monkeypatch) -> None:
    """The wallet is slow for the third of four: two envelopes stand and are told of before it answers."""
    crowd = await paid_crowd(town, "wave", 4)
    release = held_back(town, monkeypatch, "wave2")
    asked = [ask(town, args) for args in crowd]
    assert [replayed for replayed, _, _ in await answers_of(asked[:2])] == [False, False]
    assert not asked[2].done()
    assert not asked[3].done()
    release()
    assert [replayed for replayed, _, _ in await answers_of(asked[2:])] == [False, False]


async def test_an_error_nobody_expected_is_heard_by_one_alone(town: Town, monkeypatch) -> None:
    """Of three the second fails in our own code: the others have their envelopes, its money is found by its retry."""
    crowd = await paid_crowd(town, "odd", 3)
    creator = town.nodes[0].creator
    enqueue = creator.enqueue_header

    def broken(terms):
        if terms.sender == "odd1":
            raise ZeroDivisionError
        return enqueue(terms)

    with monkeypatch.context() as patch:
        patch.setattr(creator, "enqueue_header", broken)
        answers = await answers_of([ask(town, args) for args in crowd])
    assert isinstance(answers[1], ZeroDivisionError)
    assert [answers[n][0] for n in (0, 2)] == [False, False]
    assert crowds_of(town.nodes[0])._in_flight == 0
    ((replayed, _, view),) = await answers_of([ask(town, crowd[1])])
    assert (replayed, view["sender"]) == (True, "odd1")
    assert await town.wallet.balance("odd1") == 0


async def test_a_server_that_leaves_waits_for_its_creates(town: Town, monkeypatch) -> None:
    """Also for those of this very turn, and for what goes on alone after the crowd is done."""
    crowd = await paid_crowd(town, "leave", 2)
    await answers_of([ask(town, crowd[1])])
    creator, released = town.nodes[0].creator, asyncio.get_running_loop().create_future()
    fetch = creator._fetch

    async def slowly(envelope_id):
        await released
        return await fetch(envelope_id)

    monkeypatch.setattr(creator, "_fetch", slowly)
    asked = [ask(town, args) for args in crowd]
    leaving = asyncio.ensure_future(town.nodes[0].dispatcher.drain())
    await answers_of(asked[:1])
    for _ in range(5):
        await asyncio.sleep(0)
    assert not leaving.done()
    released.set_result(None)
    await asyncio.wait_for(leaving, 10)
    assert asked[1].result()[0] is True


async def test_no_more_than_so_many_are_in_flight(town: Town, monkeypatch) -> None:
    """Above it `busy` and nothing is begun; whoever is answered makes room, also by an error."""
    crowd = await paid_crowd(town, "many", 3)
    monkeypatch.setattr(coalescer, "CREATES", 2)
    asked = [ask(town, args) for args in (crowd[0], town.create_args("many-poor", 1_000, 5, "many"), crowd[1])]
    answers = await answers_of(asked)
    assert answers[0][0] is False
    assert isinstance(answers[1], Refused)
    assert isinstance(answers[2], Unavailable)
    assert (answers[2].code, answers[2].outcome_known) == ("busy", True)
    assert await town.wallet.balance("many1") == 1_000
    assert [replayed for replayed, _, _ in await answers_of([ask(town, args) for args in crowd[1:]])] == [False, False]


async def test_where_the_wallet_is_away_nothing_is_begun(town: Town, monkeypatch) -> None:
    """Each hears `wallet_unavailable`, with a known outcome, and takes up no room."""
    crowd = await paid_crowd(town, "away", 3)
    with monkeypatch.context() as patch:
        patch.setattr(town.nodes[0].wallet_link, "_open", False)
        answers = await answers_of([ask(town, args) for args in crowd])
    assert [(error.code, error.outcome_known) for error in answers] == [("wallet_unavailable", True)] * 3
    assert crowds_of(town.nodes[0])._in_flight == 0
    assert [replayed for replayed, _, _ in await answers_of([ask(town, args) for args in crowd])] == [False] * 3


async def test_a_link_lost_in_mid_crowd_leaves_it_to_the_retry(town: Town) -> None:
    """Ten times the connection to the wallet breaks somewhere on the way of sixty: one answer each, one charge each."""
    node, crowd = town.nodes[0], await paid_crowd(town, "lost", 60)
    unsure, takes_s = 0, 0.0
    for name in ("cold", "warm"):
        whole = await paid_crowd(town, name, 6)
        began = time.perf_counter()
        await answers_of([ask(town, args) for args in whole])
        takes_s = time.perf_counter() - began
    for number in range(10):
        some = crowd[number * 6 : number * 6 + 6]
        asked = [ask(town, args) for args in some]
        await asyncio.sleep(takes_s * number / 9)
        socket = node.wallet_link._socket
        assert socket is not None
        socket._response.connection.transport.abort()
        answers = await answers_of(asked)
        assert all(isinstance(answer, list) or not answer.outcome_known for answer in answers)
        unsure += sum(not isinstance(answer, list) for answer in answers)
        async with asyncio.timeout(10):
            while node.wallet_link._socket in (None, socket):
                await asyncio.sleep(0.01)
        assert all(view for _, _, view in await answers_of([ask(town, args) for args in some]))
    assert unsure, "the connection broke always too late"
    assert crowds_of(node)._in_flight == 0
    assert await town.scalar("SELECT count(*) FROM envelope WHERE sender LIKE 'lost%'") == len(crowd)
    assert {await town.wallet.balance(args[0]) for args in crowd} == {0}


async def test_terms_that_postgres_does_not_take_are_refused_alone(town: Town, monkeypatch) -> None:
    """Of five in one transaction the third has a greeting too long for its column, past every check: four stand."""
    crowd = await paid_crowd(town, "long", 5)
    creator = town.nodes[0].creator
    terms = creator._terms

    def longer(create, envelope_id, draft):
        made, hashed = terms(create, envelope_id, draft)
        return (msgspec.structs.replace(made, greeting="x" * 100) if create.sender == "long2" else made), hashed

    with monkeypatch.context() as patch:
        patch.setattr(creator, "_terms", longer)
        answers = await answers_of([ask(town, args) for args in crowd])
    assert [answers[n][0] for n in (0, 1, 3, 4)] == [False] * 4
    assert (type(answers[2]), answers[2].code) == (Refused, "malformed_request")
    assert await town.scalar("SELECT count(*) FROM envelope WHERE sender LIKE 'long%'") == 4
    ((replayed, _, _),) = await answers_of([ask(town, crowd[2])])
    assert replayed
