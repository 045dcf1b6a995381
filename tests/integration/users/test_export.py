"""What is exported of a user: all that is held, to the fen, and nothing that is secret or another's."""

import io
import json
import tracemalloc
from typing import Any

import pytest

from errors import Refused
from tests.integration.rotation.fixtures import DAY
from tests.integration.users.fixtures import ALICE, AlicesPast, SealedBooks, books, past_in, past_of_alice
from tests.integration.users.test_refused import execute
from users.documents import write_document, write_lines
from users.export import SECTIONS, Export

__all__ = ["past_of_alice"]


async def exported(one: AlicesPast, user: str = ALICE) -> dict[str, Any]:
    out = io.StringIO()
    await write_document(Export(one.installed, user).records(), out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


@pytest.mark.parametrize("state", ["hot", "verified", "dropped"])
async def test_the_sums_are_the_wallets(past_of_alice: AlicesPast, state: str) -> None:
    """Paid in, won, refunded and balance are what the wallet's transfers say, and what headers and shares say."""
    one = past_of_alice
    await one.take_to(state)
    found = await exported(one)
    said = dict(
        await one.days.rows(
            "SELECT t.kind, sum(t.amount_fen)::bigint FROM transfer t JOIN account a ON a.account_id = t.user_account "
            "WHERE a.name = $1 GROUP BY 1", f"user:{ALICE}", wallet=True,
        )
    )  # fmt: skip
    sums = found["sums"]
    assert (sums["deposited_fen"], sums["paid_in_fen"], sums["won_fen"], sums["refunded_fen"]) == tuple(
        said[kind] for kind in range(4)
    )
    assert sums["balance_fen"] == found["account"]["balance_fen"] == 0
    assert sum(row["total_fen"] for row in found["envelopes"]) == said[1]
    assert sum(row["amount_fen"] for row in found["shares"]) == said[2]
    assert sum(row["refund_fen"] for row in found["envelopes"]) == said[3]
    assert sums["adds_up"]
    assert all(row["paid"] for row in found["shares"])
    assert {row["archived"] for row in found["shares"]} == ({False} if state == "hot" else {False, True})
    assert (len(found["envelopes"]), len(found["shares"]), len(found["invitations"])) == (8, 7, 7)
    assert sums["records"] == sum(len(found[one]) for one in SECTIONS[1:-1]) + 1


async def test_lines_and_document_say_the_same(past_of_alice: AlicesPast) -> None:
    """One JSON object a line, or one document: the same records in the same order."""
    out = io.StringIO()
    await write_lines(Export(past_of_alice.installed, ALICE).records(), out)
    lines = [(line.pop("record"), line) for line in map(json.loads, out.getvalue().splitlines())]
    found = await exported(past_of_alice)
    for section in SECTIONS:
        own = [content for name, content in lines if name == section]
        assert own == (found[section] if isinstance(found[section], list) else [found[section]])


async def test_no_secret_and_no_other_user_is_in_it(past_of_alice: AlicesPast) -> None:
    """No seed, no MAC, no seal, no key of a create, and no name of anybody else."""
    one = past_of_alice
    await one.take_to("dropped")
    text = json.dumps(await exported(one))
    rows = await one.days.rows("SELECT seed, header_seal, password_mac, create_key FROM envelope")
    secrets = {value for row in rows for name, value in row.items() if value and name != "create_key"}
    assert secrets
    assert [secret for secret in secrets if secret in text] == []
    assert [name for name in ("bob", "carol", "zoe", "aaron") if f'"{name}"' in text] == []


async def test_who_was_only_invited_has_an_export(past_of_alice: AlicesPast) -> None:
    """No account is needed; a name that stands nowhere is refused."""
    found = await exported(past_of_alice, "aaron")
    assert (found["account"], len(found["invitations"]), found["sums"]["adds_up"]) == (None, 2, True)
    with pytest.raises(Refused, match="no user"):
        await exported(past_of_alice, "nobody")


@pytest.mark.parametrize(
    ("statement", "wallet", "what"),
    [
        ("UPDATE account SET balance_fen = balance_fen + 1 WHERE name = $1", True, "the balance"),
        ("UPDATE claim SET amount_fen = amount_fen + 1 WHERE user_id = substr($1, 6)", False, "won"),
        ("UPDATE claim SET user_id = 'x' || seq WHERE user_id = substr($1, 6)", False, "won"),
        ("UPDATE envelope SET total_fen = total_fen + 1 WHERE sender = substr($1, 6)", False, "paid in"),
        ("UPDATE claim SET amount_fen = amount_fen + 1 WHERE kind = 'expired'", False, "refunded"),
    ],
)
async def test_sums_that_do_not_add_up_are_told(databases, tmp_path, statement: str, wallet: bool, what: str) -> None:
    """A fen more or less on one side, and the export says which sum it is in."""
    one = await past_in(databases, tmp_path, books())
    args = () if "$1" not in statement else (f"user:{ALICE}",)
    await execute(one, statement, *args, wallet=wallet)
    sums = (await exported(one))["sums"]
    assert (sums["adds_up"], [one.startswith(what) for one in sums["differences"]]) == (False, [True])


@pytest.mark.long
async def test_memory_is_bounded(databases, tmp_path) -> None:
    """Ten times as much of a user takes no more memory: rows pass through and are not kept."""
    made = SealedBooks()
    made.envelope(DAY, "bob", [ALICE])
    one = await past_in(databases, tmp_path, made)
    many = "INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, created_at, kind, order_no) "
    many += "SELECT 1, a.account_id, a.account_id, 1, now(), 0, 'M' || $2::text || n "
    many += "FROM account a, generate_series(1, $3::int) n WHERE a.name = $1"
    peaks = []
    for number, rows in enumerate((4_000, 40_000)):
        await execute(one, many, f"user:{ALICE}", str(number), rows, wallet=True)
        tracemalloc.start()
        async for _ in Export(one.installed, ALICE).records():
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.5
