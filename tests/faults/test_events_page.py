"""The receiver of docs/apps/events.md runs as it stands, and hears of an envelope's life."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.table import main
from client import Hongbao
from machine import ports
from tests.faults.stack_fixtures import running_stack
from tests.markdown_blocks import DOCS, blocks

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
PAGE = "apps/events.md"


async def test_the_receiver_of_the_page_hears_of_opens(server_folder: Path, tmp_path: Path) -> None:
    """The program is a file of its own; it verifies, stores each event once, and prints what the page says."""
    (program,) = [one.code for one in blocks(DOCS / PAGE) if one.run_by == "tests/faults/test_events_page.py"]
    (tmp_path / "receiver.py").write_text(program, encoding="utf-8")
    port = ports.free_port()
    async with running_stack(server_folder / "data", sets=1, servers=1, events=True) as one:

        async def events(*words: str) -> str:
            told = await asyncio.to_thread(CliRunner().invoke, main, ["events", *words, "--data", str(one.data)])
            assert told.exit_code == 0, told.output
            return told.output

        said = await events("add", "chat", f"http://127.0.0.1:{port}/hongbao", "--private")
        secret = next(word for word in said.split() if word.startswith("whsec_"))
        receiver = await asyncio.create_subprocess_exec(
            sys.executable, str(tmp_path / "receiver.py"), stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "WEBHOOK_SECRET": secret, "PORT": str(port)},
        )  # fmt: skip
        try:
            async with asyncio.timeout(60):
                while True:
                    try:
                        _, writer = await asyncio.open_connection("127.0.0.1", port)
                    except OSError:
                        await asyncio.sleep(0.05)
                    else:
                        writer.close()
                        break
            await events("test", "chat")
            await one.deposit("alice", 1_000)
            async with Hongbao(one.access.gateway_url) as hongbao:
                envelope = await hongbao.user(one.access.token("alice")).create(total_fen=1_000, count=2)
                won = [await hongbao.user(one.access.token(user)).open(envelope) for user in ("bob", "carol")]
            assert receiver.stdout is not None
            async with asyncio.timeout(60):
                lines = [(await receiver.stdout.readline()).decode().strip() for _ in range(3)]
        finally:
            receiver.terminate()
            await receiver.wait()
    assert lines == [
        f"bob has taken {won[0].amount_fen} fen, 1 left",
        f"carol has taken {won[1].amount_fen} fen, 0 left",
        "all gone",
    ]
