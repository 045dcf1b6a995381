"""The contract of the door, kept by the real stack behind it: create, open, grab, look, cancel, wallet, lists."""

import asyncio
import hashlib
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from client import calls
from client.calls import Call
from tests.integration.gateway.fixtures import Client, RealStack, client

__all__ = ["client"]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


@pytest.fixture
async def sender(stack: RealStack) -> str:
    """A user of his own for each test, with 1,000 yuan."""
    user = f"sender-{uuid.uuid4().hex[:12]}"
    await stack.deposit(user, 100_000)
    return user


LUCKY = {"kind": "lucky", "total_fen": 2000, "count": 3, "greeting": "恭喜发财"}


async def balance(client: Client, user: str) -> int:
    status, _, wallet = await client.send(calls.wallet(), user)
    assert (status, wallet["user"]) == (200, user)
    return wallet["balance_fen"]


async def paid(client: Client, user: str, fen: int) -> None:
    """Wait until the payout workers have brought the user to `fen`."""
    async with asyncio.timeout(20):
        while await balance(client, user) != fen:
            await asyncio.sleep(0.02)


async def test_a_create_and_its_repeats(client: Client, sender: str) -> None:
    """The money is taken once; a repeat is the same answer and says so; another body under the key is refused."""
    answers = await asyncio.gather(
        *(client.send(calls.create(**LUCKY, idempotency_key="one"), sender) for _ in range(5))
    )
    assert {status for status, _, _ in answers} == {201}
    first = answers[0][2]
    assert all(body == first for _, _, body in answers)
    assert [headers.get("Idempotency-Replayed") for _, headers, _ in answers].count("true") == 4
    assert first["status"] == "open"
    assert len(first["split_commitment"]) == 64
    assert await balance(client, sender) == 98_000
    other = calls.create(**{**LUCKY, "count": 4}, idempotency_key="one")
    status, _, problem = await client.send(other, sender)
    assert (status, problem["code"]) == (422, "idempotency_key_reused")
    assert await balance(client, sender) == 98_000


async def test_the_same_key_of_two_senders(client: Client, stack: RealStack, sender: str) -> None:
    """A key belongs to its sender: two with the same make two envelopes."""
    await stack.deposit("somebody", 5000)
    one, two = await client.create(sender, "same", **LUCKY), await client.create("somebody", "same", **LUCKY)
    assert one.envelope_id != two.envelope_id


async def test_a_group_opens(client: Client, sender: str) -> None:
    """Shares go to the first, each once, sum exact; everybody else hears sold_out; repeats hear the same."""
    made = await client.create(sender, **LUCKY)
    users = [f"user-{number}" for number in range(6)]
    assert (await client.grab(users[0], made))["result"] == "openable"
    first = await asyncio.gather(*(client.open(user, made) for user in users))
    winners = {user: answer for user, answer in zip(users, first, strict=True) if answer["result"] == "opened"}
    assert sorted(answer["seq"] for answer in winners.values()) == [0, 1, 2]
    assert sum(answer["amount_fen"] for answer in winners.values()) == 2000
    assert [answer["seq"] for answer in winners.values() if answer["last"]] == [2]
    for user in users:
        again = await client.open(user, made)
        if user in winners:
            assert again == {**winners[user], "result": "already_opened"}
            assert await client.grab(user, made) == again
        else:
            assert again == {"result": "sold_out"}
    status, _, seen = await client.call(
        "GET", f"/v1/envelopes/{made.envelope_id}?share_token={made.share_token}", "user-0"
    )
    assert (status, seen["status"], seen["claimed_count"], seen["claimed_fen"]) == (200, "sold_out", 3, 2000)
    assert seen["best_luck"]["amount_fen"] == max(answer["amount_fen"] for answer in winners.values())
    assert hashlib.sha256(bytes.fromhex(seen["split_seed"])).hexdigest() == made.split_commitment
    assert "share_token" not in seen


async def test_claims_come_in_pages(client: Client, sender: str) -> None:
    """Oldest first, `next_cursor` until the last; sums and best luck on each page are those of all claims."""
    made = await client.create(sender, kind="lucky", total_fen=10_000, count=5)
    for n in range(5):
        await client.open(f"paged-{n}", made)
    pages, rows, cursor = [], [], None
    while not pages or cursor is not None:
        status, _, page = await client.send(calls.detail(made.envelope_id, cursor=cursor, limit=2), sender)
        assert status == 200
        rows += page["claims"]
        pages.append(page)
        cursor = page["next_cursor"]
    assert [len(page["claims"]) for page in pages] == [2, 2, 1]
    assert [row["seq"] for row in rows] == list(range(5))
    assert {page["claimed_fen"] for page in pages} == {10_000}
    assert {page["best_luck"]["seq"] for page in pages} == {max(rows, key=lambda row: row["amount_fen"])["seq"]}
    refused = {
        "limit=0": "malformed_limit", "limit=1001": "malformed_limit", "limit=1&limit=2": "repeated_parameter",
        "cursor=x": "malformed_cursor", "cursor=0": "malformed_cursor", "cursor=-1": "malformed_cursor",
    }  # fmt: skip
    for wrong, code in refused.items():
        status, _, problem = await client.call("GET", f"/v1/envelopes/{made.envelope_id}?{wrong}", sender)
        assert (status, problem["code"]) == (422, code)


async def test_strangers_need_the_share_token(client: Client, sender: str) -> None:
    """Without the token a stranger hears not_invited, with who may open it, and sees nothing; a wrong token is none."""
    made = await client.create(sender, **LUCKY)
    path = f"/v1/envelopes/{made.envelope_id}"
    for token in (None, "x" * 22):
        for verb in ("open", "grab"):
            status, _, told = await client.call("POST", f"{path}/{verb}", "eve", {"share_token": token})
            assert (status, told["result"], "X-Share-Token" in told["detail"]) == (200, "not_invited", True)
    status, _, problem = await client.call("GET", path, "eve")
    assert (status, problem["code"]) == (403, "not_invited")
    assert (await client.call("GET", path, "eve", None, X_Share_Token=made.share_token))[0] == 200
    assert (await client.call("GET", path, sender))[2]["share_token"] == made.share_token
    for verb, result in (("grab", "openable"), ("open", "opened")):
        status, _, told = await client.call("POST", f"{path}/{verb}", "eve", {"share_token": made.share_token})
        assert (status, told["result"]) == (200, result)


async def test_a_share_id_stands_for_id_and_token(client: Client, sender: str) -> None:
    """Whoever has the link sees, grabs and opens with it alone; one that was cut or made up is refused alike."""
    made = await client.create(sender, **LUCKY)
    status, _, seen = await client.call("GET", f"/v1/envelopes/{made.share_id}", "eve")
    assert (status, seen["envelope_id"]) == (200, made.envelope_id)
    assert "share_id" not in seen
    assert (await client.call("GET", f"/v1/envelopes/{made.share_id}", sender))[2]["share_id"] == made.share_id
    assert (await client.grab("eve", made.share_id))["result"] == "openable"
    assert (await client.open("eve", made.share_id))["result"] == "opened"
    by_token = f"/v1/envelopes/{made.envelope_id}/open", "eve", {"share_token": made.share_token}
    assert (await client.call("POST", *by_token))[2]["result"] == "already_opened"
    for wrong in (made.share_id[:-1], made.share_id + "A", "A" * 33, "A"):
        for method, path in (("GET", ""), ("POST", "/open"), ("POST", "/grab"), ("POST", "/cancel")):
            status, _, problem = await client.call(method, f"/v1/envelopes/{wrong}{path}", "eve")
            assert (status, problem["code"]) == (404, "share_id_invalid")
    status, _, problem = await client.call("POST", f"/v1/envelopes/{made.share_id}/cancel", "eve")
    assert (status, problem["code"]) == (403, "not_the_sender")


async def test_named_receivers(client: Client, sender: str) -> None:
    """Those who are named need no token, others are refused also with it, and only the sender sees the list."""
    made = await client.create(sender, kind="equal", total_fen=200, count=2, to=["bob", "carol"])
    assert made.to == ["bob", "carol"]
    assert (await client.open("eve", made))["result"] == "not_invited"
    assert (await client.open("bob", made.envelope_id))["amount_fen"] == 100
    assert "to" not in (await client.call("GET", f"/v1/envelopes/{made.envelope_id}", "bob"))[2]


async def test_a_password(client: Client, sender: str) -> None:
    """Five wrong tries end in wrong_password for good; none given costs no try; who says it right wins."""
    made = await client.create(sender, **LUCKY, password="年年有余")
    assert made.password_required is True
    assert await client.grab("bob", made) == {"result": "openable", "password_required": True, "tries_left": 5}
    assert await client.open("bob", made) == {"result": "wrong_password", "password_required": True, "tries_left": 5}
    for left in (4, 3, 2, 1, 0, 0):
        answer = await client.open("bob", made, password="wrong")
        assert answer == {"result": "wrong_password", "password_required": True, "tries_left": left}
    assert (await client.open("bob", made, password="年年有余"))["result"] == "wrong_password"
    # A grab says whether an open would win: it would not.
    assert await client.grab("bob", made) == answer
    assert (await client.open("carol", made, password="年年有余"))["result"] == "opened"


async def test_a_scheduled_start(client: Client, sender: str) -> None:
    """Before its start an envelope tells when it opens."""
    opens_at = datetime.now(UTC) + timedelta(hours=1)
    made = await client.create(sender, **LUCKY, opens_at=opens_at)
    assert made.status == "scheduled"
    answer = await client.open("bob", made)
    _, _, seen = await client.send(calls.detail(made), "bob")
    assert (answer["result"], answer["opens_at"]) == ("not_started", seen["opens_at"])
    assert made.opens_at - opens_at < timedelta(milliseconds=1)


async def test_cancel(client: Client, sender: str) -> None:
    """Only the sender cancels; what is left comes back; a repeat says the same; a sold out one cannot be canceled."""
    made = await client.create(sender, **LUCKY)
    won = (await client.open("bob", made))["amount_fen"]
    cancel = calls.cancel(made.envelope_id)
    for other in ("eve", "bob"):
        status, _, problem = await client.send(cancel, other)
        assert (status, problem["code"]) == (403, "not_the_sender")
    status, _, closed = await client.send(cancel, sender)
    assert (status, closed["status"], closed["refund_fen"]) == (200, "canceled", 2000 - won)
    assert (await client.send(cancel, sender))[2] == closed
    assert await client.open("carol", made) == {"result": "canceled"}
    await paid(client, sender, 100_000 - won)
    whole = await client.create(sender, kind="equal", total_fen=1, count=1)
    await client.open("bob", whole)
    status, _, problem = await client.send(calls.cancel(whole), sender)
    assert (status, problem["code"]) == (409, "already_final")


async def test_not_enough_money(client: Client, sender: str) -> None:
    """Who has too little is refused, nothing is taken, and with the same key he may try again once he has it."""
    status, _, problem = await client.send(
        calls.create(**{**LUCKY, "total_fen": 100_001}, idempotency_key="big"), sender
    )
    assert (status, problem["code"]) == (409, "insufficient_funds")
    assert await balance(client, sender) == 100_000
    assert await balance(client, f"nobody-{uuid.uuid4().hex[:8]}") == 0


async def test_no_such_envelope(client: Client, sender: str) -> None:
    """An ID that could be and is not: 404 from every call, with its result from open and grab."""
    made = await client.create(sender, **LUCKY)
    other = str(int(made.envelope_id) - 1000)
    for call in (calls.open_(other), calls.grab(other), calls.cancel(other), calls.detail(other)):
        status, headers, problem = await client.send(call, "bob")
        assert (status, problem["code"]) == (404, "not_found")
        assert headers["Content-Type"] == "application/problem+json"
        assert problem.get("result") == ("not_found" if call.path.endswith(("/open", "/grab")) else None)


async def test_statement_and_lists(client: Client, sender: str) -> None:
    """Pages newest first, walked to the end by cursors, hold everything once."""
    made = [await client.create(sender, kind="equal", total_fen=10 + number, count=1) for number in range(5)]
    user = f"user-{uuid.uuid4().hex[:12]}"
    for one in made:
        await client.open(user, one)
    await paid(client, user, sum(10 + number for number in range(5)))

    async def walk(page_of: Callable[..., Call[Any]], of: str) -> list[dict]:
        items, cursor = [], None
        for _ in range(10):
            status, _, page = await client.send(page_of(cursor=cursor, limit=2), of)
            assert status == 200
            assert len(page["items"]) <= 2
            items += page["items"]
            if (cursor := page["next_cursor"]) is None:
                return items
        raise AssertionError("the list has no end")

    newest_first = [one.envelope_id for one in reversed(made)]
    sent = await walk(partial(calls.envelopes, "sent"), sender)
    assert [one["envelope_id"] for one in sent] == newest_first
    assert [one["amount_fen"] for one in sent] == [14, 13, 12, 11, 10]
    received = await walk(partial(calls.envelopes, "received"), user)
    assert {one["envelope_id"] for one in received} == set(newest_first)
    entries = await walk(calls.entries, sender)
    assert [one["amount_fen"] for one in entries] == [-14, -13, -12, -11, -10, 100_000]
    assert entries[-1]["kind"] == "deposit"
    assert entries[-1]["envelope_id"] is None
    assert sum(one["amount_fen"] for one in entries) == await balance(client, sender)
    for path in ("/v1/me/envelopes?role=taken", "/v1/me/envelopes", "/v1/me/wallet/entries?limit=0"):
        assert (await client.call("GET", path, sender))[0] == 422
    assert (await client.call("GET", "/v1/me/wallet/entries?cursor=zzz", sender))[2]["code"] == "malformed_cursor"
