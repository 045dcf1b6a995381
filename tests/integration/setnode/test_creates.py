"""Creates: one charge and one envelope per key, completed by the retry or undone by the sweeper, never both."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import AsyncMock

import msgspec
import pytest

from errors import HongbaoError, InvariantBroken, Refused, Unavailable
from machine import ports
from schema.day_tables import DayTables
from setnode.commit import create_queue
from setnode.commit.store import insert_envelopes
from setnode.service import Setnode, running
from setnode.services import sweeper as sweeper_module
from setnode.services.fund_cursors import set_back
from sharding.ids import business_date, day_of, make_id, serial_of, slot_of
from sharding.slots import MAX_SLOTS, TAILS
from tests.clock import ManualClock
from tests.funds import DRAFT, HEADER
from tests.integration.setnode.fixtures import (
    WAIT_S,
    XXS,
    Town,
    common_town,
    living_town,
    module_databases,
    prove,
    shared_town,
)  # fmt: skip
from wire.messages import FundStatus, Op
from wire.wallet import WalletClient

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
NEVER_S = 1e6
AT_ONCE_S = -1.0
"""An age that every fund has, also one that was paid in within this millisecond."""


def TOWN() -> dict:  # noqa: N802 - read by shared_town
    """Sweepers look only when a test tells them to."""
    return {"sweep_after_s": NEVER_S}


@pytest.fixture(scope="module", autouse=True)
def _no_rounds_of_their_own() -> Iterator[None]:
    """Without this a periodic round that began a moment earlier would take the age that a test sets for its own."""
    services = Setnode._services
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Setnode, "_services", lambda node: [one for one in services(node) if one.name != "sweeper"])
        yield


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


async def create(town: Town, args: list, server: int = 0) -> tuple[bool, dict | None]:
    replayed, envelope_id, view = await town.caller.ask(town.nodes[server], Op.CREATE, args)
    assert view is None or view["envelope_id"] == str(envelope_id)
    return replayed, view


async def sweep(town: Town, server: int = 0) -> int:
    sweeper = town.nodes[server].sweeper
    undone = 0
    sweeper._after_s = AT_ONCE_S
    while (result := await sweeper.run_once()).funds:
        undone += result.undone
    sweeper._after_s = NEVER_S
    return undone


def dies_half_way(town: Town, patch: pytest.MonkeyPatch) -> None:
    """Every create ends after its money went into escrow."""

    def gone(_terms):
        future = asyncio.get_running_loop().create_future()
        future.set_exception(Unavailable("database_unavailable", "died here"))
        return future

    for node in town.nodes:
        patch.setattr(node.create_queue, "insert", gone)


async def half(town: Town, args: list) -> None:
    with pytest.MonkeyPatch.context() as patch:
        dies_half_way(town, patch)
        with pytest.raises(Unavailable) as died:
            await create(town, args)
    assert not died.value.outcome_known


async def test_fifty_identical_creates_at_once_make_one_envelope(town: Town) -> None:
    """Over two servers: one charge, one header, the same body for everybody, one of them the first."""
    await town.deposit("ann", 10_000)
    args = town.create_args("ann", 1_000, 5, "at-once", greeting="恭喜发财")
    answers = await asyncio.gather(*(create(town, args, n % 2) for n in range(50)))
    assert len({str(sorted(view.items())) for _, view in answers}) == 1
    assert [replayed for replayed, _ in answers].count(False) == 1
    assert await town.wallet.balance("ann") == 9_000
    assert await town.scalar("SELECT count(*) FROM envelope WHERE sender = 'ann'") == 1


async def test_a_create_repeated_in_another_second_is_the_first(town: Town) -> None:
    """Each second has IDs of its own: of fifty at once, half with those of the next, over two servers, one is made."""
    await town.deposit("amy", 10_000)
    args = town.create_args("amy", 1_000, 5, "seconds")
    later = [*args[:3], [one + TAILS * MAX_SLOTS for one in args[3]], args[4]]
    answers = await asyncio.gather(*(create(town, (args, later)[n % 2], n // 2 % 2) for n in range(50)))
    assert len({view["envelope_id"] for _, view in answers}) == 1
    assert [replayed for replayed, _ in answers].count(False) == 1
    assert await town.wallet.balance("amy") == 9_000
    assert await town.scalar("SELECT count(*) FROM envelope WHERE sender = 'amy'") == 1
    assert (await town.open(int(answers[0][1]["envelope_id"]), "bob"))["result"] == "opened"


async def test_a_repeat_of_a_half_made_create_makes_the_header_that_was_paid_for(town: Town) -> None:
    """Money first, then a crash: the repeat, on the other server and later, writes the header whose hash is kept."""
    await town.deposit("hal", 1_000)
    terms = {"to": ["x", "y", "z"], "password": "sesame", "min_fen": 100, "max_fen": 500}
    args = town.create_args("hal", 1_000, 3, "half", **terms)
    args[2] = "fingerprint"
    await half(town, args)
    await asyncio.sleep(0.01)  # another millisecond: the header's instant must not be that of the repeat
    _, view = await create(town, args, 1)
    assert (view["min_fen"], view["max_fen"]) == (100, 500)
    kept = await town.scalar("SELECT header_hash FROM fund WHERE create_key = $1", args[1], wallet=True)
    report = await town.audit()
    assert [one for one in report.violations if one.subject == view["envelope_id"]] == []
    assert len(kept) == 32


async def test_a_repeat_whose_money_is_older_than_drafts_is_undone(town: Town) -> None:
    """A fund of before has no draft: its create hears nothing final until the sweeper has returned the money."""
    await town.deposit("old", 1_000)
    args = town.create_args("old", 1_000, 5, "before drafts")
    await half(town, args)
    rule = "CHECK (octet_length(header_hash) = 32 OR fund_id <= {})"
    await town.scalar("ALTER TABLE fund DROP CONSTRAINT fund_header", wallet=True)
    newest = await town.scalar(
        "UPDATE fund SET draft = '', header_hash = '' WHERE create_key = $1 RETURNING fund_id", args[1], wallet=True
    )
    await town.scalar(f"ALTER TABLE fund ADD CONSTRAINT fund_header {rule.format(newest)}", wallet=True)
    for _ in range(2):
        with pytest.raises(Unavailable, match="being undone") as waits:
            await create(town, args)
        assert (waits.value.code, waits.value.outcome_known) == ("outcome_unknown", False)
    assert await town.scalar("SELECT count(*) FROM envelope WHERE create_key = $1", args[1]) == 0
    assert await sweep(town) == 1
    await town.paid_out()
    assert await town.wallet.balance("old") == 1_000
    with pytest.raises(Refused, match="create_undone"):
        await create(town, args)


async def test_a_header_of_before_seals_is_served(town: Town) -> None:
    """Its seal is missing, not wrong: every server loads it, shares are won and paid, the audit compares the hash."""
    envelope_id = await town.create(1_000, 2, sender="unsealed")
    await town.scalar("UPDATE envelope SET header_seal = NULL WHERE envelope_id = $1", envelope_id)
    other = town.other(envelope_id)
    assert (await town.open(envelope_id, "ann", node=other))["result"] == "opened"
    town.owner(envelope_id).registry._actors.pop(envelope_id, None)
    assert (await town.open(envelope_id, "bob"))["result"] == "opened"
    assert (await town.detail(envelope_id, "ann"))["status"] == "sold_out"


async def test_another_password_key_freezes_envelopes(town: Town) -> None:
    """A server with another key serves no envelope of before, and pays nothing of it; with the key it is served."""
    envelope_id = await town.create(1_000, 3, sender="keyed", password="sesame")
    settings = msgspec.structs.replace(
        town.nodes[0].settings, listen=f"127.0.0.1:{ports.free_port()}", password_key="quite another key"
    )
    async with running(settings) as stranger:
        async with asyncio.timeout(WAIT_S):
            while stranger.readiness.missing():
                await asyncio.sleep(0.01)
        for op, args in (
            (Op.OPEN, [envelope_id, "ann", True, "sesame"]),
            (Op.GRAB, [envelope_id, "ann", True, "sesame"]),
            (Op.DETAIL, [envelope_id, "ann", True]),
            (Op.CANCEL, [envelope_id, "keyed"]),
        ):
            with pytest.raises(InvariantBroken, match="is frozen"):
                await town.caller.ask(stranger, op, args)
    assert await town.scalar("SELECT count(*) FROM claim WHERE envelope_id = $1", envelope_id) == 0
    assert (await town.open(envelope_id, "ann", password="sesame"))["result"] == "opened"


async def test_a_header_edited_by_hand_is_not_served(town: Town) -> None:
    """Seed, total, bounds, times, sender or password changed in the SET alone: it freezes at its next load."""
    changes = {
        "seed": "repeat('ab', 32)", "total_fen": "total_fen + 1", "max_fen": "900",
        "opens_at": "opens_at - interval '1 h'", "expires_at": "expires_at + interval '1 h'",
        "password_mac": "repeat('ab', 32)", "sender": "'eve'",
    }  # fmt: skip
    instants, numbers = ("opens_at", "expires_at"), ("total_fen", "max_fen")
    for number, (column, value) in enumerate(changes.items()):
        envelope_id = await town.create(1_000, 3, sender=f"edited{number}", max_fen=800)
        was = await town.scalar(f"SELECT {column}::text FROM envelope WHERE envelope_id = $1", envelope_id)
        edit = f"UPDATE envelope SET {column} = "
        await town.scalar(f"{edit} {value} WHERE envelope_id = $1", envelope_id)
        owner = town.owner(envelope_id)
        other = next(node for node in town.nodes if node is not owner)
        with pytest.raises(InvariantBroken, match="is frozen"):
            await town.open(envelope_id, "ann", node=other)
        kind = "timestamptz" if column in instants else "bigint" if column in numbers else "text"
        await town.scalar(f"{edit} $2::text::{kind} WHERE envelope_id = $1", envelope_id, was)


@pytest.mark.parametrize(
    "terms",
    [
        {"to": ["a", "b"]},
        {"to": [f"u{n}" for n in range(2_000)]},
        {"kind": "equal"},
        {"kind": "equal", "split": "equal", "min_fen": 1},
        {"min_fen": 400},
        {"max_fen": 300},
        {"password": "x" * 1_000},
        {"bonus": 1},
    ],
    ids=str,
)
async def test_a_set_does_not_take_a_gateways_word_for_the_terms(town: Town, terms: dict) -> None:
    """Terms that no gateway of ours would send are refused before any money moves."""
    await town.deposit("trust", 1_000)
    before = await town.wallet.balance("trust")
    with pytest.raises(Refused):
        await create(town, town.create_args("trust", 1_000, 3, "terms", **terms))
    assert await town.wallet.balance("trust") == before


async def test_a_key_belongs_to_one_request(town: Town) -> None:
    """The same key with another body is refused and changes nothing."""
    await town.deposit("bea", 5_000)
    await create(town, town.create_args("bea", 1_000, 5, "key"))
    with pytest.raises(Refused, match="idempotency_key_reused") as refused:
        await create(town, town.create_args("bea", 2_000, 5, "key"))
    assert "send another key for a new envelope" in refused.value.detail
    assert await town.wallet.balance("bea") == 4_000


async def test_without_the_money_nothing_is_recorded(town: Town) -> None:
    """Refused, no header, no fund; with the money the very same request works."""
    await town.deposit("poor", 999)
    args = town.create_args("poor", 1_000, 5, "key")
    for _ in range(2):
        with pytest.raises(Refused, match="insufficient_funds"):
            await create(town, args)
    assert await town.wallet.balance("poor") == 999
    assert await town.scalar("SELECT count(*) FROM fund WHERE create_key = $1", args[1], wallet=True) == 0
    await town.deposit("poor", 1)
    assert (await create(town, args))[0] is False


async def test_an_answer_of_a_later_wallet_makes_no_envelope(town: Town, monkeypatch) -> None:
    """It may be a refusal: no header is written whose money is not known to be in escrow."""
    args = town.create_args("nell", 1_000, 5, "later")

    def fund(*_: object) -> asyncio.Future[tuple[int, int, bytes]]:
        answer = asyncio.get_running_loop().create_future()
        answer.set_result((max(FundStatus) + 1, args[3][0], b""))
        return answer

    monkeypatch.setattr(WalletClient, "fund", fund)
    with pytest.raises(Unavailable) as unknown:
        await create(town, args)
    assert (unknown.value.code, unknown.value.outcome_known) == ("outcome_unknown", False)
    assert await town.scalar("SELECT count(*) FROM envelope WHERE sender = 'nell'") == 0


async def test_where_every_candidate_is_taken_the_outcome_is_open(town: Town) -> None:
    """A repeat whose new candidates are others' hears nothing final, and with its next ones what stands."""
    await town.deposit("una", 5_000)
    args = town.create_args("una", 1_000, 5, "first")
    _, view = await create(town, args)
    theirs = []
    for number in range(len(args[3])):
        other = town.create_args("una", 100, 1, f"other{number}")
        other[3] = [args[3][0] + MAX_SLOTS * (10 + number)]
        theirs.append(int((await create(town, other))[1]["envelope_id"]))
    with pytest.raises(Unavailable, match="no_free_id") as unlucky:
        await create(town, [*args[:3], theirs, args[4]])
    assert not unlucky.value.outcome_known
    assert await create(town, args) == (True, view)
    assert await town.wallet.balance("una") == 4_000 - 100 * len(theirs)


@pytest.mark.parametrize(
    "terms", [{"total_fen": 0}, {"count": 0}, {"count": 2_000}, {"kind": "gift"}, {"to": [""]}, {"total_fen": 10**12}]
)
async def test_terms_that_no_envelope_can_have_take_no_money(town: Town, terms: dict) -> None:
    """What the gateway should have stopped stops here, before the wallet is asked."""
    await town.deposit("odd", 1_000)
    before = await town.wallet.balance("odd")
    args = town.create_args("odd", 1_000, 5, f"odd{terms}")
    args[4].update(terms)
    with pytest.raises(HongbaoError):
        await create(town, args)
    assert await town.wallet.balance("odd") == before


async def test_a_create_that_died_half_way_is_completed_by_its_retry(town: Town) -> None:
    """Money in escrow, no header: the retry makes the envelope without a second charge, the sweeper finds nothing."""
    await town.deposit("cid", 3_000)
    args = town.create_args("cid", 1_000, 5, "half")
    await half(town, args)
    assert await town.wallet.balance("cid") == 2_000
    assert (await create(town, args, 1))[0] is True
    assert await sweep(town) == 0
    assert await town.wallet.balance("cid") == 2_000
    assert (await create(town, args))[1] == (await create(town, args, 1))[1]


async def test_a_retry_whose_first_id_belongs_to_another_set_writes_nothing(town: Town, monkeypatch) -> None:
    """The topology changed between the attempts: no header here, but the ID by which the right SET completes it."""
    await town.deposit("moved", 3_000)
    args = town.create_args("moved", 1_000, 5, "moved")
    await half(town, args)
    with monkeypatch.context() as patch:
        for node in town.nodes:
            patch.setattr(node.creator, "_holds", lambda _: False)
        for _ in range(2):
            assert await town.caller.ask(town.nodes[0], Op.CREATE, args) == [True, args[3][0], None]
    assert await town.scalar("SELECT count(*) FROM envelope WHERE sender = 'moved'") == 0
    assert (await create(town, args, 1))[0] is True
    assert await town.wallet.balance("moved") == 2_000


async def test_a_create_that_nobody_repeats_is_undone(town: Town) -> None:
    """The sweeper gives all of it back, once; a later retry hears create_undone and takes nothing."""
    await town.deposit("dan", 3_000)
    args = town.create_args("dan", 1_000, 5, "undone")
    await half(town, args)
    assert await asyncio.gather(sweep(town, 0), sweep(town, 1)) in ([1, 0], [0, 1])
    for node in town.nodes:
        node.payouts._overflow = True
        await node.payouts.read_back()
    await town.paid_out()
    assert await town.wallet.balance("dan") == 3_000
    for server in (0, 1):
        with pytest.raises(Refused, match="create_undone"):
            await create(town, args, server)
    assert await town.wallet.balance("dan") == 3_000
    envelope_id = await town.scalar("SELECT envelope_id FROM envelope WHERE sender = 'dan'")
    assert (await town.open(envelope_id, "late"))["result"] == "canceled"


async def test_the_sweeper_leaves_a_young_create_alone(town: Town) -> None:
    """What paid in a moment ago is still being created."""
    await town.deposit("eve", 1_000)
    args = town.create_args("eve", 1_000, 5, "young")
    await half(town, args)
    town.nodes[0].sweeper._after_s = 30
    assert (await town.nodes[0].sweeper.run_once()).undone == 0
    town.nodes[0].sweeper._after_s = NEVER_S
    await create(town, args)


async def test_the_sweeper_catches_up_in_one_round(town: Town, monkeypatch) -> None:
    """However many pages lie between its cursor and a create that died."""
    await sweep(town)
    await town.deposit("fay", 5_000)
    for number in range(4):
        await create(town, town.create_args("fay", 1_000, 5, f"stands-{number}"))
    await half(town, town.create_args("fay", 1_000, 5, "died"))
    monkeypatch.setattr(sweeper_module, "SWEEP_PAGE", 2)
    assert await sweep_once(town) == 1


async def test_a_cursor_that_a_move_turns_back_stays_back(town: Town, monkeypatch) -> None:
    """Turned back in the middle of a page: what that page brings carries it past no fund to look at again."""
    await town.deposit("ida", 2_000)
    await half(town, town.create_args("ida", 1_000, 5, "gone by"))
    await sweep(town)
    assert await town.scalar("SELECT after FROM fund_cursor") > 0
    await half(town, town.create_args("ida", 1_000, 5, "turned"))
    sweeper = town.nodes[0].sweeper
    undo = sweeper._undo

    async def turned_back(connection, funds):
        await connection.execute("UPDATE fund_cursor SET after = 0")
        return await undo(connection, funds)

    with monkeypatch.context() as patch:
        patch.setattr(sweeper, "_undo", turned_back)
        await sweep_once(town)
    assert await town.scalar("SELECT after FROM fund_cursor") == 0
    await sweep(town)
    assert await town.scalar("SELECT after FROM fund_cursor") > 0
    await town.paid_out()
    assert await town.wallet.balance("ida") == 2_000


async def test_a_restored_wallet_does_not_hide_creates_that_died(town: Town) -> None:
    """A wallet that is behind what the sweeper has seen gives numbers out again: set back, the sweeper finds them."""
    await town.deposit("urs", 2_000)
    await half(town, town.create_args("urs", 1_000, 5, "before the restore"))
    await sweep(town)
    newest = await town.scalar("SELECT max(fund_id) FROM fund", wallet=True)
    # As after a restore of the wallet to an instant before it gave out the next thousand.
    await town.rows("UPDATE fund_cursor SET after = $1", newest + 1_000)
    assert await set_back(town.wallet_dsn, {"set-1": town.set_dsn}) == {"set-1": (newest + 1_000, newest)}
    assert await set_back(town.wallet_dsn, {"set-1": town.set_dsn}) == {}
    await half(town, town.create_args("urs", 1_000, 5, "after the restore"))
    assert await sweep(town) == 1
    await town.paid_out()
    assert await town.wallet.balance("urs") == 2_000


@pytest.mark.parametrize("days", [-3, 3])
async def test_a_gateway_of_another_day_moves_no_money(town: Town, monkeypatch, days: int) -> None:
    """Its day may be proven already, or closed before it comes; who repeats what stands is told what stands."""
    await town.deposit(f"gil{days}", 2_000)
    day = business_date(town.clock.now()) + timedelta(days=days)
    args = town.create_args(f"gil{days}", 1_000, 5, f"other-day{days}")
    args[3] = [make_id(day, serial_of(one), slot_of(one)) for one in args[3]]
    for node in town.nodes:
        monkeypatch.setattr(node.days, "has_tables", AsyncMock(return_value=True))
    with pytest.raises(Unavailable, match="clocks_differ") as differ:
        await create(town, args)
    assert differ.value.outcome_known
    assert await town.wallet.balance(f"gil{days}") == 2_000


async def test_the_day_on_which_a_server_started_is_not_near_for_ever(town: Town, monkeypatch) -> None:
    """Creates of today look at no clock; a week later the first day is far all the same, whatever tables stand."""
    node = town.nodes[0]
    clock = ManualClock(town.clock.now())
    monkeypatch.setattr(node.days, "_clock", clock)
    first = business_date(clock.now())
    days = {first + timedelta(days=number) for number in range(9)}
    started = make_id(first, 1, 7)
    for number in range(8):
        node.days.update(days, set())
        today = make_id(first + timedelta(days=number), 1, 7)
        assert node.days.is_ready(today)
        assert node.days.is_near(today)
        assert node.days.is_ready(started) == node.days.is_near(started) == (number <= 1)
        clock.advance(days=1)


async def test_retry_and_sweeper_at_once_give_one_or_the_other(town: Town) -> None:
    """Twenty races: either an envelope stands and the money is in it, or it was undone and the money is back."""
    alive = 0
    for n in range(20):
        user = f"race{n}"
        await town.deposit(user, 1_000)
        args = town.create_args(user, 1_000, 5, "race")
        await half(town, args)
        racers = [create(town, args, n % 2), sweep(town, (n + 1) % 2)]
        if n % 3 == 0:
            sweeping = asyncio.ensure_future(racers[1])
            await asyncio.sleep(0.001 * (n % 7))  # a head start, so that both sides win some
            racers[1] = sweeping
        created, swept = await asyncio.gather(*racers, return_exceptions=True)
        won = not isinstance(created, BaseException)
        alive += won
        assert swept == (not won), repr(created)
        assert won or created.code == "create_undone"
        kinds = await town.rows(
            "SELECT c.kind FROM envelope e JOIN claim c USING (envelope_id) WHERE e.sender = $1", user
        )
        assert [row["kind"] for row in kinds] == ([] if won else ["undone"])
    for node in town.nodes:
        node.payouts._overflow = True
    await town.paid_out()
    back = [await town.wallet.balance(f"race{n}") for n in range(20)]
    assert (back.count(0), back.count(1_000)) == (alive, 20 - alive)


def gathers(town: Town, patch: pytest.MonkeyPatch, number: int) -> list[int]:
    """The first server's creates wait until `number` of them make one batch; returns the sizes of its transactions."""
    queue, sizes = town.nodes[0].create_queue, []

    def insert(terms):
        future = asyncio.get_running_loop().create_future()
        queue._ready.append((terms, future))
        if len(queue._ready) >= number:
            queue.nonempty.set()
        return future

    async def counted(connection, headers):
        sizes.append(len(headers))
        return await insert_envelopes(connection, headers)

    patch.setattr(queue, "insert", insert)
    patch.setattr(create_queue, "insert_envelopes", counted)
    return sizes


async def test_a_day_without_tables_takes_no_other_days_creates_with_it(town: Town, monkeypatch) -> None:
    """Five creates in one batch, two of a day whose tables went after the money: three stand, two are completed later.

    Who comes when it is known that there are none hears so before any money moves.
    """
    day = business_date(datetime.now(UTC)) + timedelta(days=20)
    for node in town.nodes:
        monkeypatch.setattr(node.days, "is_near", lambda _: True)
    good, early = ([town.create_args(f"{name}{n}", 1_000, 5, "mixed") for n in range(3)] for name in ("good", "early"))
    for args in [*good, *early]:
        await town.deposit(args[0], 1_000)
    for args in early:
        args[3] = [make_id(day, serial_of(one), slot_of(one)) for one in args[3]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(town.nodes[0].days, "has_tables", AsyncMock(return_value=True))
        sizes = gathers(town, patch, 5)
        answers = await asyncio.gather(*(create(town, args) for args in [*good, *early[:2]]), return_exceptions=True)
    assert (sizes[0], sorted(sizes[1:])) == (5, [2, 3])
    assert [replayed for replayed, _ in answers[:3]] == [False] * 3
    assert [error.code for error in answers[3:]] == ["day_tables_missing"] * 2
    assert not any(error.outcome_known for error in answers[3:])
    with pytest.raises(Unavailable, match="day_tables_missing") as missing:
        await create(town, early[2])
    assert missing.value.outcome_known
    assert await town.wallet.balance(early[2][0]) == 1_000
    assert town.nodes[0]._sessions["create"].up, "a missing day is no reason to lose the connection"
    await DayTables(town.set_dsn, XXS).ensure(day, ahead_days=0)
    await town.nodes[0].days.look()
    assert [(await create(town, args))[0] for args in early] == [True, True, False]


async def test_an_id_that_stands_is_left_as_it_is_and_takes_no_other_with_it(town: Town, monkeypatch) -> None:
    """Of a batch of three one was just written by another server: the others go in, each once, with its guest."""
    crowd = [town.create_args(f"stood{n}", 1_000, 1, "stood", to=[f"stood-guest{n}"]) for n in range(3)]
    for args in crowd:
        await town.deposit(args[0], 1_000)
    _, first = await create(town, crowd[1], server=1)
    creator, looks = town.nodes[0].creator, iter([None])

    async def not_yet(envelope_id):
        return next(looks, await fetch(envelope_id))

    fetch = creator._fetch
    monkeypatch.setattr(creator, "_fetch", not_yet)
    sizes = gathers(town, monkeypatch, 3)
    answers = await asyncio.gather(*(create(town, args) for args in crowd))
    assert sizes == [3]
    assert [replayed for replayed, _ in answers] == [False, True, False]
    assert answers[1][1] == first
    ids = sorted(int(view["envelope_id"]) for _, view in answers)
    due = await town.rows("SELECT envelope_id FROM due WHERE envelope_id = ANY($1) ORDER BY envelope_id", ids)
    guests = await town.rows("SELECT user_id FROM guest WHERE envelope_id = ANY($1) ORDER BY user_id", ids)
    assert [row["envelope_id"] for row in due] == ids
    assert [row["user_id"] for row in guests] == ["stood-guest0", "stood-guest1", "stood-guest2"]


@pytest.mark.asyncio(loop_scope="function")
async def test_across_midnight_the_retry_finds_the_first_and_missing_days_lose_nothing(
    databases, memcached: str, tmp_path: Path
) -> None:
    """A retry on the next business day completes the first day's envelope; a day without tables delays, no more."""
    today = business_date(datetime.now(UTC))
    midnight = datetime.combine(today + timedelta(days=1), datetime.min.time(), UTC) - timedelta(hours=8)
    clock = ManualClock(midnight - timedelta(seconds=5))
    async with living_town(databases, memcached, tmp_path, clock, sweep_after_s=NEVER_S) as town:
        await town.deposit("night", 5_000)
        args = town.create_args("night", 1_000, 5, "midnight")
        await half(town, args)
        clock.advance(seconds=10)
        later = town.create_args("night", 1_000, 5, "midnight")
        assert (day_of(args[3][0]), day_of(later[3][0])) == (today, today + timedelta(days=1))
        replayed, view = await create(town, later)
        assert (replayed, int(view["envelope_id"])) == (True, args[3][0])
        assert (await create(town, args, 1))[1] == view
        assert await town.wallet.balance("night") == 4_000

        clock.advance(days=5)
        completed, undone = (town.create_args("night", 1_000, 5, key) for key in ("completed", "undone"))
        with pytest.raises(Unavailable, match="day_tables_missing") as missing:
            await create(town, completed)
        assert missing.value.outcome_known
        with pytest.MonkeyPatch.context() as patch:
            for node in town.nodes:
                patch.setattr(node.days, "has_tables", AsyncMock(return_value=True))
            await half(town, undone)
        assert await sweep_once(town) == 0
        await DayTables(town.set_dsn, XXS).ensure(business_date(clock.now()), ahead_days=0)
        await town.nodes[0].days.look()
        await create(town, completed)
        assert await sweep_once(town) == 1
        await prove(town)
        # The first one expired meanwhile: paid in, refunded; the undone one is back; the completed one is paid in.
        assert await town.wallet.balance("night") == 4_000


async def sweep_once(town: Town) -> int:
    """One round, with every fund old enough."""
    sweeper = town.nodes[0].sweeper
    sweeper._after_s = AT_ONCE_S
    result = await sweeper.run_once()
    sweeper._after_s = NEVER_S
    return result.undone


async def put_right(town: Town) -> None:
    """As an operator who has mended the cause: the funds are compared again, and everything is paid back."""
    await town.scalar("DELETE FROM fund_set_apart")
    await town.scalar("UPDATE fund_cursor SET after = 0")
    assert await sweep(town) >= 1
    for node in town.nodes:
        node.payouts._overflow = True
        await node.payouts.read_back()
    await town.paid_out()


@pytest.mark.parametrize("bad_id", [2602310000001000007, 8912310000001000007])
async def test_a_fund_whose_id_names_no_day_of_ours_stops_no_other(town: Town, bad_id: int) -> None:
    """No calendar has its day, or no tables ever had: it is set apart by name, and the create behind it is undone."""
    await sweep(town)
    sender = f"odd-{bad_id % 97}"
    await town.deposit(sender, 1_000)
    await town.deposit("dan", 1_000)
    odd = town.create_args(sender, 1_000, 5, f"bad {bad_id}")
    await half(town, odd)
    await half(town, town.create_args("dan", 1_000, 5, f"behind {bad_id}"))
    renamed = "UPDATE fund SET envelope_id = $1 WHERE envelope_id = $2"
    await town.scalar(renamed, bad_id, odd[3][0], wallet=True)
    assert await sweep(town) == 1
    (kept,) = await town.rows("SELECT envelope_id, sender, total_fen FROM fund_set_apart")
    assert tuple(kept) == (bad_id, sender, 1_000)
    assert sweeper_module._apart._value.get() == 1
    assert await town.scalar("SELECT count(*) FROM envelope WHERE sender = $1", sender) == 0
    # It is passed for good: the next rounds have nothing to do.
    sweeper_module._apart.set(0)
    assert (await town.nodes[0].sweeper.run_once()).funds == 0
    assert sweeper_module._apart._value.get() == 1, "a process that has just begun knows it, too"
    await town.scalar(renamed, odd[3][0], bad_id, wallet=True)
    await put_right(town)


async def test_a_fund_that_no_header_can_follow_stops_no_other(town: Town) -> None:
    """Its sender's name fits the wallet and no header: found by halves among good ones, which are undone."""
    await sweep(town)
    long = "x" * 50
    await town.deposit(long, 1_000)
    for number in range(3):
        await town.deposit("eve", 1_000)
        await half(town, town.create_args("eve", 1_000, 5, f"good {number}"))
        if number == 1:
            key = town.create_args(long, 1_000, 5, "long")
            wallet = town.nodes[0].creator._wallet
            assert (await wallet.fund(key[1], key[2], long, 1_000, key[3][0], HEADER, DRAFT))[0] == 0
    assert await sweep(town) == 3
    (kept,) = await town.rows("SELECT envelope_id, reason FROM fund_set_apart")
    assert kept["envelope_id"] == key[3][0]
    assert "not accepted" in kept["reason"]
    await town.scalar("UPDATE account SET name = 'user:short' WHERE name = $1", f"user:{long}", wallet=True)
    await put_right(town)
    assert await town.wallet.balance("short") == 1_000


async def test_what_was_paid_out_is_never_paid_back(town: Town) -> None:
    """As after a restore to an earlier instant: header and claims are gone, and a share was paid. Nothing is undone."""
    await sweep(town)
    envelope_id = await town.create(1_000, 5, sender="ivy")
    await town.open(envelope_id, "lucky one")
    await town.paid_out()
    ids = "envelope_id = $1"
    for table in ("envelope", "claim", "due"):
        await town.scalar(f"CREATE TABLE lost_{table} AS SELECT * FROM {table} WHERE envelope_id = {envelope_id}")
        await town.scalar(f"DELETE FROM {table} WHERE {ids}", envelope_id)
    await town.scalar("UPDATE fund_cursor SET after = after - 1")
    before = await town.wallet.balance("ivy")
    assert await sweep(town) == 0
    (kept,) = await town.rows("SELECT envelope_id, reason FROM fund_set_apart")
    assert (kept["envelope_id"], "paid" in kept["reason"]) == (envelope_id, True)
    for table in ("envelope", "claim", "due"):
        await town.scalar(f"INSERT INTO {table} SELECT * FROM lost_{table}")
        await town.scalar(f"DROP TABLE lost_{table}")
    await town.scalar("DELETE FROM fund_set_apart")
    await town.paid_out()
    assert await town.wallet.balance("ivy") == before


async def test_too_many_funds_in_a_row_without_a_header_stop_the_sweeper(town: Town, monkeypatch) -> None:
    """Nothing is undone, readiness says why and stays yes; with headers between them, or a higher limit, it goes on."""
    await sweep(town)
    sweeper, readiness = town.nodes[0].sweeper, town.nodes[0].readiness
    monkeypatch.setattr(sweeper, "_in_a_row", 2)
    await town.deposit("gil", 9_000)

    async def dies(number: int) -> None:
        await half(town, town.create_args("gil", 1_000, 5, f"row {number}"))

    for number in range(2):
        await dies(number)
    await create(town, town.create_args("gil", 1_000, 5, "stands"))
    await dies(2)
    assert await sweep(town) == 3
    assert not sweeper.stopped
    for number in range(3, 6):
        await dies(number)
    assert await sweep(town) == 0
    assert sweeper.stopped
    assert sweeper_module._stopped._value.get() == 1
    assert (readiness.missing(), len(readiness.notes())) == ([], 1)
    monkeypatch.setattr(sweeper, "_in_a_row", 100)
    assert await sweep(town) == 3
    assert (sweeper.stopped, readiness.notes()) == (False, [])
    for node in town.nodes:
        node.payouts._overflow = True
    await town.paid_out()
    assert await town.wallet.balance("gil") == 8_000
