"""Claims that the wallet has paid and a SET lacks: found, replayed, put back; what does not fit is left and named."""

import pytest

from audit.proof import AuditTarget
from errors import Unavailable
from recovery.claims import LostClaims, lost_claims, put_back
from runtime import postgres
from schema import roles
from tests.integration.setnode.fixtures import SMALL, Town, module_databases, shared_town, town

LOG = "SELECT seq, kind, user_id, amount_fen FROM claim WHERE envelope_id = $1 ORDER BY seq"
__all__ = ["module_databases", "shared_town", "town"]


async def looked(town: Town) -> LostClaims:
    assert town.databases is not None
    own, wallet = (town.databases.dsn_as(dsn, roles.AUDIT) for dsn in (town.set_dsn, town.wallet_dsn))
    return await lost_claims(AuditTarget("set-1", own, range(SMALL.slots)), wallet)


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
    lost = await looked(town)
    assert [row[2] for row in lost.rows] == [1, 2, 3]
    assert lost.left == []
    await put_back(town.set_dsn, lost)
    again = await town.rows(LOG, one)
    assert [tuple(row) for row in again] == [tuple(row) for row in before]
    with pytest.raises(Unavailable, match="call it again"):
        await put_back(town.set_dsn, lost)


async def test_what_the_seed_does_not_say_is_not_put_back(town: Town) -> None:
    """A credit that is no share of the envelope, by its amount, changes no log: it is named."""
    one = await town.create(1_000, 5, split="equal", kind="equal")
    for user in ("a", "b"):
        assert (await town.open(one, user))["result"] == "opened"
    await town.paid_out()
    await lose(town, one, 1)
    async with postgres.connected(town.wallet_dsn) as connection:
        await connection.execute("UPDATE transfer SET amount_fen = 199 WHERE order_no = $1", f"{one}.1")
    lost = await looked(town)
    assert lost.rows == []
    assert lost.left_count == 1
    assert str(one) in lost.left[0]
    async with postgres.connected(town.wallet_dsn) as connection:
        await connection.execute("UPDATE transfer SET amount_fen = 200 WHERE order_no = $1", f"{one}.1")
    await put_back(town.set_dsn, await looked(town))


async def test_a_gap_in_what_was_paid_leaves_only_what_is_behind_it(town: Town) -> None:
    """Several calls of a payer are in flight at once: the wallet may have the second and not the first."""
    one = await town.create(1_000, 10, split="equal", kind="equal")
    for number in range(8):
        await town.open(one, f"u{number}")
    await town.paid_out()
    await lose(town, one, *range(1, 8))
    async with postgres.connected(town.wallet_dsn) as connection:
        await connection.execute("UPDATE transfer SET order_no = 'elsewhere' WHERE order_no = $1", f"{one}.6")
        lost = await looked(town)
        await connection.execute("UPDATE transfer SET order_no = $1 WHERE order_no = 'elsewhere'", f"{one}.6")
    assert [row[2] for row in lost.rows] == [1, 2, 3, 4, 5]
    assert (lost.left_count, lost.left_claims) == (1, 1)
    assert "1 paid claim from 7 on" in lost.left[0]
    await put_back(town.set_dsn, await looked(town))


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
    await put_back(town.set_dsn, await looked(town))
    times = [row["claimed_at"] for row in await town.rows("SELECT claimed_at FROM claim WHERE envelope_id = $1", one)]
    assert times == sorted(times)
    assert (await town.audit()).holds
