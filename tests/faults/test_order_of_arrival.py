"""Order over the real link to a real server process: first come, first served, first answered."""

import asyncio
from pathlib import Path

import pytest

from envelope.outcomes import Outcome
from installation.keys import Secrets
from tests.faults.stack_fixtures import Crowd, running_stack
from wire.link import Link
from wire.messages import Op

pytestmark = pytest.mark.faults


async def test_answers_of_one_envelope_come_in_order_of_arrival(server_folder: Path) -> None:
    """Of 300 opens sent in order over the link, the first 100 win seq 0 to 99 and the answers come in that order."""
    async with running_stack(server_folder / "data", sets=1, servers=1) as running:
        await running.deposit("host", 10_000)
        async with Crowd(running, seed=2) as crowd:
            envelope = await crowd.create("host", total_fen=10_000, count=100)
        topology = running.access.topology()
        key = Secrets.load(running.data / "secrets.json").link_key("gateway")
        link = Link("set-1-a", topology.sets[0].servers[0].url, key=key)
        keeping = asyncio.ensure_future(link.maintain())
        async with asyncio.timeout(10):
            while not link.up:
                await asyncio.sleep(0.01)
        envelope_id, answered = int(envelope.envelope_id), []
        calls = [link.call(Op.OPEN, envelope_id, f"client-{n}", True, None) for n in range(300)]
        for number, call in enumerate(calls):
            call.add_done_callback(lambda _, number=number: answered.append(number))
        answers = await asyncio.gather(*calls)
        keeping.cancel()
        await asyncio.wait({keeping})
        assert answered == list(range(300))
        assert [answer[2] for answer in answers[:100]] == list(range(100))
        assert {tuple(Outcome)[answer[0]] for answer in answers[100:]} == {Outcome.SOLD_OUT}
