"""Section (a) of the benchmark at a size that only shows that nothing of it has rotted."""

from pathlib import Path

import pytest

from loadtest.bench import losses
from loadtest.bench.arena import started_arena
from loadtest.bench.engine import NAMES, Turns
from loadtest.bench.workloads import hot, many


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_every_contender_has_its_turn_and_its_money_check(server_folder: Path) -> None:
    """At many envelopes and at a hot one each contender wins shares, and its money adds up; killed, ours loses none."""
    async with started_arena(server_folder) as arena:
        for workload in (many("many", 50, 4, waiting=100, seconds=0.5), hot(10, envelopes=1, seconds=0.5)):
            turns = Turns(arena, workload)
            for turn in turns.all().values():
                assert await turn() > 0
            assert [name for _, name, money in turns.checks if not money.holds] == []
            assert {name for _, name, _ in turns.checks} == set(turns.all()) <= set(NAMES)
        found = await losses.of_hongbao(arena, hot(100, envelopes=1, seconds=1.0))
        assert found["answered"] > 0
        assert found["lost"] == 0
