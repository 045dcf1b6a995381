"""What receivers hear of envelopes' lives, on a real SET."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg

from envelope.outcomes import Entry
from setnode.services.payouts.stuck import redrive
from tests.integration.events.fixtures import (
    Receiver,
    add_sink,
    delivering,
    operator,
    out_of_order,
    quick,
    receiver,
    sink_of,
)
from tests.integration.setnode.fixtures import Town, town
from wire.messages import PayResult, PayStatus

__all__ = ["quick", "receiver", "town"]


async def test_a_life_is_told_in_order(town: Town, receiver: Receiver, quick: None) -> None:
    """Created, each share, sold out: every event once, signed, with the amounts that the users were answered."""
    await add_sink(town, receiver)
    async with delivering(town):
        envelope_id = await town.create(1_000, 3, greeting="恭喜发财")
        answers = [await town.open(envelope_id, f"u{n}") for n in range(3)]
        await receiver.until(lambda: "envelope.sold_out" in receiver.types())
    assert receiver.types() == ["envelope.created", *["share.opened"] * 3, "envelope.sold_out"]
    created, *opened, sold_out = receiver.first()
    assert [one["sequence"] for one in receiver.first()] == [f"{n:010d}" for n in range(5)]
    assert created["data"]["sender"] == "sender"
    assert created["data"]["greeting"] == "恭喜发财"
    assert created["data"]["total_fen"] == 1_000
    assert [(one["data"]["user"], one["data"]["amount_fen"], one["data"]["left"]) for one in opened] == [
        (f"u{n}", answers[n]["amount_fen"], 2 - n) for n in range(3)
    ]
    assert sold_out["data"] == {
        "envelope_id": str(envelope_id), "count": 3, "sold_out_at": opened[-1]["data"]["opened_at"]
    }  # fmt: skip
    for one in receiver.first():
        assert one["specversion"] == "1.0"
        assert (one["subject"], one["partitionkey"], one["source"]) == (str(envelope_id), str(envelope_id), "hongbao")
        assert "seed" not in str(one)


async def test_a_cancel_is_told_and_then_its_refund(town: Town, receiver: Receiver, quick: None) -> None:
    """`envelope.closed` says what goes back; `refund.paid` follows once the wallet has it."""
    await add_sink(town, receiver)
    async with delivering(town):
        envelope_id = await town.create(1_000, 3)
        won = (await town.open(envelope_id, "u"))["amount_fen"]
        with town.nothing_paid():
            await town.cancel(envelope_id, "sender")
            await receiver.until(lambda: "envelope.closed" in receiver.types())
            assert "refund.paid" not in receiver.types()
        await receiver.until(lambda: "refund.paid" in receiver.types())
    closed, paid = receiver.first()[-2:]
    assert (closed["data"]["reason"], closed["data"]["opened"], closed["data"]["refund_fen"]) == (
        Entry.CANCELED, 1, 1_000 - won
    )  # fmt: skip
    assert (paid["data"]["user"], paid["data"]["amount_fen"]) == ("sender", 1_000 - won)
    assert closed["sequence"] < paid["sequence"]
    assert await town.scalar(
        "SELECT amount_fen FROM transfer WHERE order_no = $1", paid["data"]["order_no"], wallet=True
    )


async def test_a_stuck_payout_is_told(town: Town, receiver: Receiver, quick: None, monkeypatch: Any) -> None:
    """An order that the wallet refuses for good is told with its reason, and who is to be paid."""

    async def refuse(orders: Any) -> list[PayResult]:
        return [PayResult(PayStatus.REFUSED, "account closed") for _ in orders]

    await add_sink(town, receiver)
    async with delivering(town):
        envelope_id = await town.create(1_000, 2)
        with monkeypatch.context() as patch:
            for node in town.nodes:
                patch.setattr(node.payer._wallet, "pay", refuse)
            await town.open(envelope_id, "u")
            await receiver.until(lambda: "payout.stuck" in receiver.types())
        stuck = receiver.first()[-1]
        assert (stuck["data"]["user"], stuck["data"]["reason"]) == ("u", "account closed")
        assert "sequence" not in stuck
        # Driven again, so that the books are clean.
        connection = await asyncpg.connect(town.set_dsn)
        await redrive(connection, town.clock.now() - timedelta(hours=1), None)
        await connection.close()
        await asyncio.gather(*(node.payouts.read_back() for node in town.nodes))
        await town.paid_out()


async def test_nothing_is_told_before_its_commit(town: Town, receiver: Receiver, quick: None) -> None:
    """Rows of a transaction that is open are not told, however long, and hold up nothing; once committed they are."""
    await add_sink(town, receiver)
    async with delivering(town):
        slow = await asyncpg.connect(town.set_dsn)
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute(
            "INSERT INTO event_log (what, envelope_ids, seqs, shares, kinds, user_ids, amounts_fen) "
            "VALUES ('claims', '{7}', '{0}', '{2}', '{open}', '{slow}', '{5}')"
        )
        envelope_id = await town.create(1_000, 1)
        await town.open(envelope_id, "quick")
        await receiver.until(lambda: "envelope.sold_out" in receiver.types())
        assert "7" not in {one["subject"] for one in receiver.accepted}
        await transaction.commit()
        await slow.close()
        await receiver.until(lambda: receiver.first()[-1]["subject"] == "7")


async def test_without_a_sink_nothing_is_written(town: Town, receiver: Receiver) -> None:
    """While nobody receives events, commits leave no entry; a sink hears what is committed after it was added."""
    envelope_id = await town.create(1_000, 2)
    await town.open(envelope_id, "before")
    assert not await town.scalar("SELECT count(*) FROM event_log")
    await add_sink(town, receiver)
    await town.open(envelope_id, "after")
    assert await town.scalar("SELECT array_agg(user_ids) FROM event_log") == [["after"]]


async def test_of_two_processes_one_delivers(town: Town, receiver: Receiver, quick: None) -> None:
    """A second process waits for the SET; when the first one is gone it goes on where that one stopped."""
    await add_sink(town, receiver)
    async with delivering(town) as first:
        await receiver.until(lambda: first.held)
        async with delivering(town) as second:
            await receiver.until(lambda: second.answers or not second.held)
            envelope_id = await town.create(1_000, 40)
            await asyncio.gather(*(town.open(envelope_id, f"u{n}") for n in range(20)))
            await receiver.until(lambda: len(receiver.accepted) == 21)
            assert not second.held
    async with delivering(town):
        await asyncio.gather(*(town.open(envelope_id, f"v{n}") for n in range(20)))
        await receiver.until(lambda: len(receiver.first()) == 42)
    assert not list(out_of_order(receiver.accepted))


async def test_what_all_have_passed_is_deleted(town: Town, receiver: Receiver, quick: None) -> None:
    """Entries stay while a sink has not passed them, and go afterwards; when the last sink goes, all go."""
    await add_sink(town, receiver)
    await add_sink(town, receiver, "late")
    async with operator(town) as connection:
        await connection.execute("UPDATE event_sink SET state = 'paused' WHERE name = 'late'")
        async with delivering(town):
            envelope_id = await town.create(1_000, 1)
            await town.open(envelope_id, "u")
            await receiver.until(lambda: len(receiver.accepted) == 3)
            await asyncio.sleep(0.2)
            assert await town.scalar("SELECT count(*) FROM event_log") == 2
            assert (await sink_of(town, "late")).behind_s > 0
            await connection.execute("DELETE FROM event_sink WHERE name = 'late'")
            async with asyncio.timeout(60):
                while await town.scalar("SELECT count(*) FROM event_log"):
                    await asyncio.sleep(0.02)
    assert (await sink_of(town)).behind_s == 0
