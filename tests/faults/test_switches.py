"""An operator closes and opens what users ask for, with the command, beside a running system."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from cli.table import main
from client import NO_PATIENCE, ApiError, Hongbao
from tests.faults.stack_fixtures import running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
FORCE_S = 1.0
"""Within this time every process goes by a change."""


async def test_an_operator_closes_opens_and_opens_them_again(server_folder: Path) -> None:
    """A trial changes nothing; within a second opens are closed, and open again; nonsense is refused by a sentence."""
    async with running_stack(server_folder / "data", sets=1, servers=2) as one:

        async def command(*words: str) -> tuple[int, str]:
            told = await asyncio.to_thread(CliRunner().invoke, main, ["switch", *words, "--data", str(one.data)])
            return told.exit_code, told.output

        async def report(*words: str) -> Any:
            code, said = await command(*words, "--json")
            assert code == 0, said
            # The stack of this test logs to the same output.
            return json.JSONDecoder().raw_decode(said, said.index("{"))[0]

        await one.deposit("host", 10_000)
        async with (
            Hongbao(one.access.gateway_url, patience=NO_PATIENCE) as hongbao,
            aiohttp.ClientSession() as session,  # for metrics
        ):

            async def opened(user: str) -> str:
                try:
                    return (await hongbao.user(one.access.token(user)).open(envelope)).result
                except ApiError as error:
                    return error.code

            async def within_a_second(wanted: str) -> None:
                number = 0
                async with asyncio.timeout(FORCE_S):
                    while await opened(f"{wanted}-{number}") != wanted:
                        number += 1
                        await asyncio.sleep(0.05)

            host = hongbao.user(one.access.token("host"))
            envelope = await host.create(kind="equal", total_fen=1_000, count=1_000)
            assert await opened("first") == "opened"

            words = ("on", "opens:set-1", "--reason", "disk is full", "--owner", "ann", "--for", "30m")
            trial = await report(*words, "--dry-run")
            assert (trial["on"], trial["hits"]["sets"], trial["hits"]["envelopes"]) == (False, ["set-1"], 1)
            assert trial["hits"]["databases"] == ["db_00", "db_01", "db_02", "db_03"]
            assert trial["hits"]["per_s"] is not None
            assert (await report("list"))["switches"] == []
            assert await opened("second") == "opened"

            assert (await report(*words))["on"] is True
            await within_a_second("degraded")
            (shown,) = (await report("list"))["switches"]
            assert (shown["name"], shown["owner"], shown["reason"]) == ("opens:set-1", "ann", "disk is full")
            assert "disk is full" in (await command("list"))[1]
            async with session.get(f"{one.access.gateway_url}/metrics", headers=one.access.metrics_headers()) as answer:
                assert 'hongbao_switch_on{switch="opens:set-1"} 1.0' in await answer.text()

            code, said = await command("off", "opens:set-1")
            assert (code, "open again" in said) == (0, True)
            await within_a_second("opened")

            for wrong, sentence in (
                (("on", "refunds", "--reason", "x"), "there is no switch 'refunds'"),
                (("on", "opens", "--reason", "x"), "opens are closed for one SET or database"),
                (("on", "opens:set-7", "--reason", "x"), "no SET or database 'set-7'"),
                (("on", "creates", "--reason", "x", "--for", "0s"), "which is past"),
                (("on", "creates", "--reason", "x", "--for", "9d"), "7 days at most"),
                (("off", "creates"), "creates is not closed; closed: nothing"),
            ):
                code, said = await command(*wrong)
                assert (code, sentence in said) == (1, True), said
            assert (await command("on", "creates"))[0] == 2
            assert (await command("on", "creates", "--reason", "x", "--for", "soon"))[0] == 2
            assert (await report("list"))["switches"] == []
        assert (await one.settled_audit()).holds
