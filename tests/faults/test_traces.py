"""One open is followed through all processes of a stack, from the request to its credit in the wallet."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from client import Hongbao
from tests.faults.stack_fixtures import running_stack
from tests.integration.traces.collector import Told, collecting

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
TRACE, OTHER, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "7".rjust(32, "0"), "00f067aa0ba902b7"
OPENED = [
    ("hongbao-gateway", "gateway openEnvelope"),
    ("hongbao-setnode", "setnode OPEN"),
    ("hongbao-setnode", "commit"),
    ("hongbao-setnode", "payout"),
    ("hongbao-wallet", "wallet PAY"),
]
"""Each is the child of the one before it."""
CREATED = [
    ("hongbao-gateway", "gateway createEnvelope"),
    ("hongbao-setnode", "setnode CREATE"),
    ("hongbao-wallet", "wallet FUND"),
]


async def test_an_open_is_followed_from_the_request_to_the_wallet(server_folder: Path) -> None:
    """The spans of one traced open hang together, name no user and no amount, and an untraced one leaves none."""
    async with collecting() as collector:
        env = {"HONGBAO_TRACE_ENDPOINT": collector.url, "HONGBAO_TRACE_FROM": "127.0.0.0/8"}
        async with running_stack(server_folder / "data", sets=1, servers=1, env=env) as running:
            await running.deposit("rich-sender", 12_345)
            url, token = running.stack.gateway_url, running.access.token
            async with Hongbao(url) as hongbao, aiohttp.ClientSession() as session:
                sender = hongbao.user(token("rich-sender"))
                made = await sender.create(total_fen=12_345, count=2)
                assert collector.spans == []

                async def opens(user: str, flags: str) -> tuple[int, str]:
                    headers = {
                        "Authorization": f"Bearer {token(user)}",
                        "traceparent": f"00-{TRACE}-{CALLER}-{flags}",
                        "X-Share-Token": str(made.share_token),
                        "X-Request-Id": "the-request",
                    }
                    path = f"{url}/v1/envelopes/{made.envelope_id}/open"
                    async with session.post(path, headers=headers) as answer:
                        assert (await answer.json())["result"] == "opened"
                        return answer.status, answer.headers["X-Request-Id"]

                assert await opens("quiet-winner", "00") == (200, "the-request")
                assert await opens("lucky-winner", "01") == (200, "the-request")
                await collector.until(lambda spans: {"wallet PAY", "gateway openEnvelope", "payout"} <= names(spans))
                await running.deposit("rich-sender", 100)
                headers = {
                    "Authorization": f"Bearer {token('rich-sender')}",
                    "traceparent": f"00-{OTHER}-{CALLER}-01",
                    "Idempotency-Key": "one",
                }
                body = {"kind": "lucky", "total_fen": 100, "count": 1}
                async with session.post(f"{url}/v1/envelopes", json=body, headers=headers) as answer:
                    assert answer.status == 201
            await collector.until(lambda spans: {"wallet FUND", "gateway createEnvelope"} <= names(spans))
            assert (await running.settled_audit()).holds
        created = [one for one in collector.spans if one.trace == OTHER]
        in_order(created, CREATED)
        spans = [one for one in collector.spans if one.trace != OTHER]
    assert {one.trace for one in spans} == {TRACE}
    assert not [one for one in spans if one.error]
    in_order(spans, OPENED)
    (waited,) = [one for one in spans if one.name == "wait"]
    assert waited.parent == next(one.id for one in spans if one.name == "setnode OPEN")
    gateway = next(one for one in spans if one.name == "gateway openEnvelope")
    assert gateway.attributes["hongbao.request_id"] == "the-request"
    assert gateway.attributes["http.response.status_code"] == 200
    told = json.dumps([one.attributes for one in spans])
    assert not [word for word in ("winner", "sender", "12345", "fen", str(made.share_token)) if word in told]


def in_order(spans: list[Told], chain: list[tuple[str, str]]) -> None:
    parent = CALLER
    for service, name in chain:
        (found,) = [one for one in spans if (one.service, one.name) == (service, name)]
        assert found.parent == parent, name
        parent = found.id


def names(spans: list[Told]) -> set[str]:
    return {one.name for one in spans}


@pytest.mark.long
async def test_a_stack_serves_and_stops_though_its_collector_hangs(server_folder: Path) -> None:
    """With a collector that takes calls and never answers, opens are answered and the stop takes no longer."""
    async with collecting() as collector:
        collector.stuck = True
        env = {"HONGBAO_TRACE_ENDPOINT": collector.url, "HONGBAO_TRACE_RATIO": "1"}
        async with running_stack(server_folder / "data", sets=1, servers=1, env=env) as running:
            await running.deposit("sender", 1_000)
            async with Hongbao(running.stack.gateway_url) as hongbao:
                made = await hongbao.user(running.access.token("sender")).create(total_fen=1_000, count=3)
                for number in range(3):
                    winner = hongbao.user(running.access.token(f"winner-{number}"))
                    assert (await winner.open(made)).result == "opened"
            async with asyncio.timeout(10):
                while not collector.calls:
                    await asyncio.sleep(0.02)
            assert (await running.settled_audit()).holds
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 20
    assert collector.spans == []
