"""Claims that the wallet has paid and a SET lacks: found, replayed, put back; what does not fit is left and named."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, NamedTuple

import pytest

from audit.proof import AuditTarget
from errors import Unavailable
from recovery import claims
from recovery.claims import LostClaims, Row, find_lost_claims, put_back
from runtime import postgres
from schema import roles
from tests.integration.setnode.fixtures import SMALL, Town, module_databases, shared_town, town

_TOLD = """SELECT unnest(envelope_ids), unnest(seqs), unnest(kinds), unnest(user_ids), unnest(amounts_fen)
FROM event_log WHERE what = 'claims' ORDER BY xid, entry_id"""
LOG = "SELECT seq, kind, user_id, amount_fen FROM claim WHERE envelope_id = $1 ORDER BY seq"
__all__ = ["module_databases", "shared_town", "town"]


class Looked(NamedTuple):
    """The rows that are found, and the numbers."""

    rows: list[Row]
    lost: LostClaims


def search(town: Town, lost: LostClaims) -> AsyncGenerator[list[Row]]:
    assert town.databases is not None
    own, wallet = (town.databases.dsn_as(dsn, roles.AUDIT) for dsn in (town.set_dsn, town.wallet_dsn))
    return find_lost_claims(AuditTarget("set-1", own, range(SMALL.slots)), wallet, lost)


async def looked(town: Town) -> Looked:
    lost = LostClaims()
    rows = [row async for some in search(town, lost) for row in some]
    assert (lost.number, lost.fen) == (len(rows), sum(row[6] for row in rows))
    return Looked(rows, lost)


async def mended(town: Town) -> LostClaims:
    lost = LostClaims()
    async with aclosing(search(town, lost)) as found:
        await put_back(town.set_dsn, found)
    return lost


async def lose(town: Town, envelope_id: int, *seqs: int) -> None:
    async with postgres.connected(town.set_dsn) as connection:
        await connection.execute("DELETE FROM claim WHERE envelope_id = $1 AND seq = ANY($2::int[])", envelope_id, seqs)


async def test_the_end_of_a_log_is_put_back_as_it_was(town: Town) -> None:
    """The last claims and a closing come back as they were; beside what has come meanwhile nothing is put back."""
    one = await town.create(1_000, 5)
    for user in ("a", "b", "c"):
        assert (await town.open(one, user))["result"] == "opened"
    await town.cancel(one, "sender")
    await town.paid_out()
    assert (await looked(town)).rows == []
    before = await town.rows(
        "SELECT seq, kind, user_id, amount_fen FROM claim WHERE envelope_id = $1 ORDER BY seq", one
    )
    await lose(town, one, 1, 2, 3)
    rows, lost = await looked(town)
    assert [row[2] for row in rows] == [1, 2, 3]
    assert lost.left == []
    assert (await mended(town)).number == 3
    again = await town.rows(LOG, one)
    assert [tuple(row) for row in again] == [tuple(row) for row in before]

    async def found_before() -> AsyncIterator[list[Row]]:
        yield rows

    with pytest.raises(Unavailable, match="call it again"):
        await put_back(town.set_dsn, found_before())


async def test_what_the_seed_does_not_say_is_not_put_back(town: Town) -> None:
    """A credit that is no share of the envelope, by its amount, changes no log: it is named."""
    one = await town.create(1_000, 5, split="equal", kind="equal")
    for user in ("a", "b"):
        assert (await town.open(one, user))["result"] == "opened"
    await town.paid_out()
    await lose(town, one, 1)
    async with postgres.connected(town.wallet_dsn) as connection:
        await connection.execute("UPDATE transfer SET amount_fen = 199 WHERE order_no = $1", f"{one}.1")
    rows, lost = await looked(town)
    assert rows == []
    assert lost.left_count == 1
    assert str(one) in lost.left[0]
    async with postgres.connected(town.wallet_dsn) as connection:
        await connection.execute("UPDATE transfer SET amount_fen = 200 WHERE order_no = $1", f"{one}.1")
    await mended(town)


async def test_a_gap_in_what_was_paid_leaves_only_what_is_behind_it(town: Town) -> None:
    """Several calls of a payer are in flight at once: the wallet may have the second and not the first."""
    one = await town.create(1_000, 10, split="equal", kind="equal")
    for number in range(8):
        await town.open(one, f"u{number}")
    await town.paid_out()
    await lose(town, one, *range(1, 8))
    async with postgres.connected(town.wallet_dsn) as connection:
        await connection.execute("UPDATE transfer SET order_no = 'elsewhere' WHERE order_no = $1", f"{one}.6")
        rows, lost = await looked(town)
        await connection.execute("UPDATE transfer SET order_no = $1 WHERE order_no = 'elsewhere'", f"{one}.6")
    assert [row[2] for row in rows] == [1, 2, 3, 4, 5]
    assert (lost.left_count, lost.left_claims) == (1, 1)
    assert "1 paid claim from 7 on" in lost.left[0]
    await mended(town)


async def test_a_claim_that_was_paid_late_is_dated_before_those_behind_it(town: Town) -> None:
    """A stuck payout is paid after later ones; put back, the log is in order of time all the same."""
    one = await town.create(1_000, 5, split="equal", kind="equal")
    for user in ("a", "b", "c"):
        await town.open(one, user)
    await town.paid_out()
    async with postgres.connected(town.wallet_dsn) as connection:
        await connection.execute(
            "UPDATE transfer SET created_at = created_at + interval '10 minutes' WHERE order_no = $1", f"{one}.1"
        )
    await lose(town, one, 1, 2)
    await mended(town)
    times = [row["claimed_at"] for row in await town.rows("SELECT claimed_at FROM claim WHERE envelope_id = $1", one)]
    assert times == sorted(times)
    assert (await town.audit()).holds


async def test_however_many_are_lost_only_so_many_are_in_memory(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written in portions, each of whole envelopes."""
    monkeypatch.setattr(claims, "ROWS_AT_ONCE", 3)
    real, portions = claims._write, []

    async def write(connection: object, rows: list[Row]) -> None:
        portions.append([row[0] for row in rows])
        await real(connection, rows)

    monkeypatch.setattr(claims, "_write", write)
    made = [await town.create(1_000, 5) for _ in range(5)]
    for one in made:
        await town.open(one, "a")
        await town.open(one, "b")
    await town.paid_out()
    for one in made:
        await lose(town, one, 0, 1)
    assert (await mended(town)).number == 10
    assert [len(one) for one in portions] == [4, 4, 2]
    assert sorted(one for some in portions for one in some) == sorted([*made, *made])


async def test_receivers_of_events_are_told_of_what_is_put_back(town: Town) -> None:
    """They may have been told before, under the same IDs; what they were not told of is in the log of events."""
    one = await town.create(1_000, 5, split="equal", kind="equal")
    for user in ("a", "b", "c"):
        await town.open(one, user)
    await town.cancel(one, "sender")
    await town.paid_out()
    async with postgres.connected(town.set_dsn) as connection:
        await lose(town, one, 1, 2, 3)
        await connection.execute("INSERT INTO event_sink (name, kind, address) VALUES ('app', 'webhook', 'https://x')")
        await connection.execute("DELETE FROM event_log")
        await mended(town)
        told = await connection.fetch(_TOLD)
        await connection.execute("DELETE FROM event_sink")
    assert [tuple(row) for row in told] == [
        (one, 1, "open", "b", 200), (one, 2, "open", "c", 200), (one, 3, "canceled", "", 400),
    ]  # fmt: skip


async def test_a_paid_claim_whose_place_is_taken_is_named(town: Town) -> None:
    """An expiry, or somebody's open, came first: what was paid is in no log, and that is said."""
    closed, won = [await town.create(1_000, 5, split="equal", kind="equal") for _ in range(2)]
    for one in (closed, won):
        await town.open(one, "a")
        await town.open(one, "b")
    await town.paid_out()
    values = "(envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at)"
    async with postgres.connected(town.set_dsn) as connection:
        for one, kind, user, fen in ((closed, "expired", "", 800), (won, "open", "z", 200)):
            await lose(town, one, 1)
            await connection.execute(
                f"INSERT INTO claim {values} SELECT $1, slot, 1, shares, $2, $3, $4, now() FROM envelope "
                "WHERE envelope_id = $1",
                one, kind, user, fen,
            )  # fmt: skip
        lost = await mended(town)
        await lose(town, closed, 1)
        await lose(town, won, 1)
    assert (lost.number, lost.left_count, lost.left_claims) == (0, 2, 2)
    assert all("1 paid claim in whose place another entry stands" in one for one in lost.left)
    assert (await mended(town)).number == 2


async def test_a_database_that_goes_away_while_claims_are_put_back(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with a sentence, and called again it goes on."""
    one = await town.create(1_000, 5)
    await town.open(one, "a")
    await town.paid_out()
    await lose(town, one, 0)
    real = claims._write

    async def cut(connection: Any, rows: list[Row]) -> None:
        await town.cut_off(connection)
        await real(connection, rows)

    with monkeypatch.context() as patched:
        patched.setattr(claims, "_write", cut)
        with pytest.raises(Unavailable, match="went away while claims were put back"):
            await mended(town)
    assert (await mended(town)).number == 1
