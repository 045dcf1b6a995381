"""One envelope's life inside a SET, on real Postgres, memcached and wallet."""

import asyncio
import subprocess
import sys
from collections import Counter
from datetime import timedelta

import aiohttp
import pytest

from errors import Refused
from setnode.activation import loader
from setnode.service import Setnode
from sharding.ids import business_date
from tests.integration.setnode.fixtures import Town, town

__all__ = ["town"]


async def test_every_share_is_won_once_and_the_sum_is_exact(town: Town) -> None:
    """200 users, each three times at once: 100 win, every repeat hears the same, the shares sum to the total."""
    envelope_id = await town.create(10_000, 100)
    answers = await asyncio.gather(*(town.open(envelope_id, f"u{n % 200}") for n in range(600)))
    by_user: dict[str, set[int]] = {}
    for n, answer in enumerate(answers):
        by_user.setdefault(f"u{n % 200}", set()).add(answer["amount_fen"])
    assert Counter(answer["result"] for answer in answers) == {"opened": 100, "already_opened": 200, "sold_out": 300}
    assert all(len(amounts) == 1 for amounts in by_user.values())
    assert sum(answer["amount_fen"] for answer in answers if answer["result"] == "opened") == 10_000


async def test_answers_come_in_order_of_arrival(town: Town) -> None:
    """Of one envelope the n-th request is the n-th answered, and seqs follow arrival."""
    envelope_id = await town.create(1_000, 10)
    answers = await asyncio.gather(*(town.open(envelope_id, f"u{n}") for n in range(50)))
    assert town.caller.order == sorted(town.caller.order)
    assert [answer["seq"] for answer in answers[:10]] == list(range(10))
    assert answers[9]["last"]
    assert {answer["result"] for answer in answers[10:]} == {"sold_out"}


async def test_a_thousand_first_requests_load_the_envelope_once(town: Town) -> None:
    """1,000 requests at a sleeping envelope wake it by one load."""
    envelope_id = await town.create(1_000, 10)
    node = town.other(envelope_id)  # it has never seen this envelope
    before = loader._loaded._value.get()
    await asyncio.gather(*(town.open(envelope_id, f"u{n}", node=node) for n in range(1_000)))
    assert loader._loaded._value.get() == before + 1


async def test_two_servers_never_sell_a_share_twice(town: Town) -> None:
    """Two servers that both believe they own an envelope still give out each share once."""
    envelope_id = await town.create(5_000, 50)
    rounds = [
        asyncio.gather(*(town.open(envelope_id, f"u{n}", node=node) for n in range(start, start + 10)))
        for start in range(0, 100, 10)
        for node in town.nodes
    ]
    answers = [answer for group in await asyncio.gather(*rounds) for answer in group]
    wins = [answer for answer in answers if answer["result"] == "opened"]
    assert len(wins) == 50
    assert sum(win["amount_fen"] for win in wins) == 5_000
    assert len({win["seq"] for win in wins}) == 50


async def test_the_remainder_goes_back_when_canceled(town: Town) -> None:
    """Cancel closes at once, refunds exactly what is left, and nobody opens after it."""
    envelope_id = await town.create(1_000, 10)
    won = [await town.open(envelope_id, f"u{n}") for n in range(3)]
    with pytest.raises(Refused, match="not_the_sender"):
        await town.cancel(envelope_id, "u1")
    detail = await town.cancel(envelope_id, "sender")
    assert detail["status"] == "canceled"
    assert detail["refund_fen"] == 1_000 - sum(one["amount_fen"] for one in won)
    assert (await town.open(envelope_id, "late"))["result"] == "canceled"
    assert (await town.open(envelope_id, "u1"))["amount_fen"] == won[1]["amount_fen"]
    assert await town.cancel(envelope_id, "sender") == detail
    await town.paid_out()
    assert await town.wallet.balance("sender") == detail["refund_fen"]


async def test_expiry_refunds_exactly_what_is_left(town: Town) -> None:
    """An envelope closes within a second of its time and the sender has the rest back."""
    envelope_id = await town.create(1_000, 10, expires_in_s=1)
    won = await town.open(envelope_id, "early")
    async with asyncio.timeout(5):
        while "refund_fen" not in (detail := await town.detail(envelope_id, "sender")):
            await asyncio.sleep(0.05)
    assert detail["status"] == "expired"
    assert detail["refund_fen"] == 1_000 - won["amount_fen"]
    assert (await town.open(envelope_id, "late"))["result"] == "expired"
    await town.paid_out()
    assert await town.wallet.balance("sender") == detail["refund_fen"]
    async with asyncio.timeout(5):
        while await town.scalar("SELECT count(*) FROM due"):
            await asyncio.sleep(0.05)


async def test_a_password_allows_five_wrong_tries_even_across_servers(town: Town) -> None:
    """The sixth try is refused though right, also by a server that read the count from the database."""
    envelope_id = await town.create(1_000, 10, password="芝麻开门")
    assert (await town.open(envelope_id, "nobody"))["tries_left"] == 5
    for left in (4, 3, 2, 1, 0):
        answer = await town.open(envelope_id, "guess", password="wrong")
        assert (answer["result"], answer["tries_left"]) == ("wrong_password", left)
    assert (await town.open(envelope_id, "guess", password="芝麻开门"))["result"] == "wrong_password"
    elsewhere = await town.open(envelope_id, "guess", password="芝麻开门", node=town.other(envelope_id))
    assert (elsewhere["result"], elsewhere["tries_left"]) == ("wrong_password", 0)
    assert (await town.open(envelope_id, "knows", password="芝麻开门"))["result"] == "opened"


async def test_named_envelopes_open_only_for_those_named(town: Town) -> None:
    """A receiver needs no token, a stranger with the token hears not_invited, also after a reload."""
    envelope_id = await town.create(1_000, 2, to=["ann", "bob"])
    assert (await town.open(envelope_id, "eve"))["result"] == "not_invited"
    assert (await town.grab(envelope_id, "ann", token_ok=False))["result"] == "openable"
    assert (await town.open(envelope_id, "ann", token_ok=False))["result"] == "opened"
    assert (await town.open(envelope_id, "bob", token_ok=False, node=town.other(envelope_id)))["result"] == "opened"


async def test_without_the_token_an_envelope_is_hidden(town: Town) -> None:
    """Whoever is neither named nor bears the token learns nothing of it."""
    envelope_id = await town.create(1_000, 2)
    assert (await town.open(envelope_id, "eve", token_ok=False))["result"] == "not_invited"
    with pytest.raises(Refused, match="not_invited"):
        await town.detail(envelope_id, "eve", token_ok=False)
    assert (await town.detail(envelope_id, "sender", token_ok=False))["status"] == "open"


async def test_a_scheduled_envelope_waits_for_its_hour(town: Town) -> None:
    """Before opens_at nobody wins, afterwards somebody does."""
    opens_at_ms = town.clock.now_ms() + 700
    envelope_id = await town.create(1_000, 2, opens_at_ms=opens_at_ms)
    early = await town.open(envelope_id, "u1")
    assert (early["result"], early["opens_at_ms"]) == ("not_started", opens_at_ms)
    await asyncio.sleep(0.75)
    assert (await town.open(envelope_id, "u1"))["result"] == "opened"


async def test_the_seed_is_told_only_after_the_end(town: Town) -> None:
    """Nobody, not even the sender, sees the seed while a share is left; then it matches the commitment."""
    envelope_id = await town.create(100, 2)
    assert "split_seed" not in await town.detail(envelope_id, "sender")
    await town.open(envelope_id, "a")
    await town.open(envelope_id, "b")
    detail = await town.detail(envelope_id, "sender")
    assert detail["status"] == "sold_out"
    assert detail["best_luck"]["amount_fen"] == max(claim["amount_fen"] for claim in detail["claims"])
    from envelope.verify import verify

    assert verify(detail).holds


async def test_unknown_envelopes_are_not_found(town: Town) -> None:
    """An ID that nobody created is not_found and leaves nothing in memory."""
    envelope_id = await town.create(100, 2)
    unknown = envelope_id + 1000
    assert (await town.open(unknown, "a"))["result"] == "not_found"
    assert len(town.owner(unknown).registry) <= 1


async def test_a_server_tells_how_far_its_tables_go(town: Town) -> None:
    """The alarm is on each server's own metrics, goes by what its SET has, and follows it; -1 when today has none."""
    node, today = town.nodes[0], business_date(town.clock.now())
    assert await _days_ahead(node) == 2
    for offset, left in ((2, 1), (0, -1)):
        await town.rows(f"ALTER TABLE envelope DETACH PARTITION envelope_{today + timedelta(days=offset):%Y%m%d}")
        await node.days.look()
        assert await _days_ahead(node) == left


async def _days_ahead(node: Setnode) -> float:
    async with aiohttp.ClientSession() as session, session.get(f"http://{node.settings.listen}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return float(next(line for line in lines if line.startswith("hongbao_day_tables_ahead ")).split()[1])


def test_whoever_makes_tables_claims_nothing_of_them() -> None:
    """A process that only knows the module exports no number; a server that has not looked yet exports none either."""
    show = "from runtime import metrics; print(metrics.render().decode())"
    for module, told in (("schema.day_tables", []), ("setnode.service", ["hongbao_day_tables_ahead NaN"])):
        done = subprocess.run([sys.executable, "-c", f"import {module}; {show}"], capture_output=True, check=True)
        assert [line for line in done.stdout.decode().splitlines() if line.startswith("hongbao_day_tables_a")] == told
