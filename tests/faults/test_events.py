"""Events of a whole system: told by the process that `./run` supervises, to a receiver that an operator has added."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.table import main
from client import Hongbao, User
from doctor.events import events as examine
from doctor.finding import Level
from doctor.place import look
from tests.faults.stack_fixtures import Running, running_stack
from tests.integration.events.fixtures import out_of_order, receiving

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]


async def _hongbao(one: Running, *words: str) -> tuple[int, str]:
    told = await asyncio.to_thread(CliRunner().invoke, main, ["events", *words, "--data", str(one.data)])
    return told.exit_code, told.output


async def _report(one: Running, *words: str, status: int = 0) -> Any:
    code, said = await _hongbao(one, *words, "--json")
    assert code == status, said
    # The stack of this test logs to the same output.
    return json.JSONDecoder().raw_decode(said, said.index("{"))[0]


def _user(hongbao: Hongbao, one: Running, name: str) -> User:
    return hongbao.user(one.access.token(name))


async def test_an_app_hears_of_everything_while_the_process_is_killed(server_folder: Path) -> None:
    """Lives over HTTP, the process killed twice: each event arrives, in order; commands tell how the receiver does."""
    async with running_stack(server_folder / "data", sets=2, servers=1, events=True) as one, receiving() as app:
        assert (await _report(one, "list"))["sinks"] == []
        code, said = await _hongbao(one, "add", "app", app.url)
        assert code == 1
        assert "--private" in said
        added = await _report(one, "add", "app", app.url, "--private")
        app.secret = added["secret"]
        assert (await _hongbao(one, "add", "app", app.url, "--private"))[0] == 1
        assert (await _report(one, "test", "app"))["accepted"]
        assert [event["type"] for event in app.accepted] == ["sink.test"]

        async with Hongbao(one.access.gateway_url) as hongbao:
            await one.deposit("alice", 1_000_000)
            expected = 1
            for number in range(3):
                sent = await asyncio.gather(
                    *(_user(hongbao, one, "alice").create(total_fen=1_000, count=10) for _ in range(6))
                )
                opens = (_user(hongbao, one, f"u{n}").open(envelope) for envelope in sent for n in range(10))
                playing = asyncio.gather(*opens)
                if number < 2:
                    one.stack.kill("events")
                await playing
                expected += 6 * 12
        await app.until(lambda: len(app.first()) == expected)
        assert not list(out_of_order(app.accepted))
        async with asyncio.timeout(60):
            while True:
                (sink,) = (await _report(one, "list"))["sinks"]
                if not sink["behind_s"] and sink["delivered"] >= expected - 1:
                    break
                await asyncio.sleep(0.2)
        assert sink["needs"] == []
        assert [finding.level for finding in await examine(look(one.data))] == [Level.OK]

        app.answer = lambda _: 410
        async with Hongbao(one.access.gateway_url) as hongbao:
            await _user(hongbao, one, "alice").create(total_fen=1_000, count=10)
        async with asyncio.timeout(60):
            # The process of events notes the refusal, then disables the sink; in between doctor sees one that fails.
            while Level.WRONG not in {finding.level for finding in await examine(look(one.data))}:
                await asyncio.sleep(0.2)
        assert "410" in (await _report(one, "list", status=1))["sinks"][0]["needs"][0]
        app.answer = lambda _: 204
        assert (await _report(one, "resume", "app"))["resumed"] == "app"
        await app.until(lambda: len(app.first()) == expected + 1)
        renewed = (await _report(one, "secret", "app"))["secret"]
        assert renewed != app.secret
        assert (await _report(one, "remove", "app"))["removed"] == "app"
        assert (await _report(one, "list"))["sinks"] == []
        assert (await one.settled_audit()).holds
