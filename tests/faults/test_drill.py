"""The drill at a size that only shows that nothing of it has rotted: every figure is there, and the money adds up."""

from pathlib import Path

import pytest

from installation.finding import find
from loadtest.drill.command import BARS
from loadtest.drill.context import DrillContext, Size
from loadtest.drill.stages import run
from loadtest.idle_stack import idle_stack
from local.config import StackConfig

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300), pytest.mark.long]
TINY = Size(claims=2_000, small=400, slots=40, rate=50.0, move_rate=100.0, watch_s=2.0)
_BY_THE_CLOCK = {
    "detach_s",
    "stall_p999_ms",
    "export_per_s",
    "verify_per_s",
    "cold_read_ms",
    "live_move_stall_s",
    "build_31_days_s",
}
"""Held by the drill itself on a quiet machine, never by a test."""


async def test_a_tiny_drill_goes_all_the_way(server_folder: Path) -> None:
    """Loaded, proven, detached, exported, read back, dropped, restored, moved: nothing failed, the audit is clean."""
    config = StackConfig(
        data=server_folder / "data", port=0, sets=2, servers=1, slots=TINY.slots, ahead_days=2, notify=lambda _: None
    )
    async with idle_stack(config):
        drill = DrillContext(find(config.data), TINY, server_folder, lambda _: None)
        await run(drill)
    assert drill.failures == []
    assert set(drill.figures) == set(BARS)
    # So few claims make files that are mostly headers; and it is pytest's own process that is weighed here.
    others = BARS.keys() - _BY_THE_CLOCK - {"bytes_per_claim", "export_mb"}
    assert [name for name in others if not BARS[name].holds(drill.figures[name])] == []
