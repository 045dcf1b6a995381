"""`hongbao user export` and `user forget` on a running stack, as an operator calls them."""

import json
import uuid
from pathlib import Path
from typing import Any

from tests.forks import Ended, hongbao
from tests.integration.gateway.fixtures import Client, RealStack, client

__all__ = ["client"]


async def user(stack: RealStack, *words: str) -> Ended:
    return await hongbao("user", *words, "--data", str(stack.data))


async def a_life(stack: RealStack, client: Client, who: str) -> None:
    """Somebody sends two envelopes, one of which comes back, and wins a share."""
    await stack.deposit(who, 1_000)
    sent = await client.create(who, kind="equal", total_fen=300, count=3, greeting=f"by {who}")
    await client.open("bob", sent)
    await client.open(who, sent)
    status, _, _ = await client.call("POST", f"/v1/envelopes/{sent.envelope_id}/cancel", who, {})
    assert status == 200
    await client.open(who, await client.create("bob", kind="equal", total_fen=200, count=1))


async def paid(client: Client, who: str, fen: int) -> list[dict[str, Any]]:
    """Wait until the wallet has all; returns the statement."""
    while True:
        _, _, wallet = await client.call("GET", "/v1/me/wallet", who)
        if wallet["balance_fen"] == fen:
            return (await client.call("GET", "/v1/me/wallet/entries", who))[2]["items"]


async def test_exported_forgotten_and_told_so(stack: RealStack, client: Client, tmp_path: Path) -> None:
    """The export has the statement's transfers to the fen; after it the name is gone, and what was asked is told."""
    who = f"leaver-{uuid.uuid4().hex[:8]}"
    await a_life(stack, client, who)
    entries = await paid(client, who, 1_100)
    file = tmp_path / "export.json"
    ended = await user(stack, "export", who, "--json", "-o", str(file))
    assert (ended.status, ended.out) == (0, ""), ended.err
    assert file.stat().st_mode & 0o777 == 0o600
    found = json.loads(file.read_text(encoding="utf-8"))
    assert sorted(row["amount_fen"] for row in found["transfers"]) == sorted(abs(one["amount_fen"]) for one in entries)
    assert (found["sums"]["won_fen"], found["sums"]["refunded_fen"], found["sums"]["balance_fen"]) == (300, 100, 1_100)
    assert [row["greeting"] for row in found["envelopes"]] == [f"by {who}"]
    lines = (await user(stack, "export", who)).out.splitlines()
    assert json.loads(lines[-1])["record"] == "sums"
    ended = await user(stack, "export", "nobody-at-all", "--json")
    assert (ended.status, ended.out, "no user" in ended.err) == (1, "", True)

    ended = await user(stack, "forget", who, "--check", "--json")
    assert (ended.status, json.loads(ended.out)["ready"]) == (1, False)
    ended = await user(stack, "forget", who, "--yes")
    assert (ended.status, "1100 fen" in ended.err, "--leave-balance" in ended.err) == (1, True, True)
    assert (await user(stack, "forget", who, "--leave-balance")).status == 1, "nobody typed the ID again"
    assert (await user(stack, "export", who)).status == 0, "nothing was changed"
    ended = await user(stack, "forget", who, "--leave-balance", "--yes", "--json")
    assert ended.status == 0, ended.err
    pseudonym = json.loads(ended.out)["pseudonym"]
    _, _, shown = await client.call("GET", f"/v1/envelopes/{found['envelopes'][0]['envelope_id']}", "bob")
    assert (shown["sender"], shown["greeting"]) == (pseudonym, "")
    assert who not in json.dumps(shown)
    _, _, wallet = await client.call("GET", "/v1/me/wallet", who)
    assert wallet["balance_fen"] == 0
    ended = await user(stack, "forget", who, "--yes")
    assert (ended.status, "was forgotten on" in ended.err) == (1, True)
    status, _, told = await client.call("POST", "/v1/envelopes", "bob", {
        "kind": "equal", "total_fen": 100, "count": 1, "to": [pseudonym],
    }, Idempotency_Key="no")  # fmt: skip
    assert (status, told["code"]) == (422, "malformed_user"), "nobody can be, or invite, a pseudonym"
    ended = await hongbao("audit", "--json", "--data", str(stack.data))
    assert (ended.status, json.loads(ended.out)["violations"]) == (0, []), ended.out
