"""When the rotation beside a stack begins a round."""

import asyncio
from pathlib import Path

import pytest

from rotation import background
from rotation.background import BackgroundRotation
from rotation.daemon import Round
from runtime.sandbox_clock import SandboxClock


async def test_a_round_follows_a_move_of_a_sandboxs_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before its next round the rotation begins one: the days in the past and the tables ahead are others now."""
    path, begun = tmp_path / "sandbox-clock", asyncio.Event()
    SandboxClock.create(path)

    async def noted(_: BackgroundRotation) -> Round:
        begun.set()
        return Round()

    monkeypatch.setattr(background, "MOVED_S", 0.0)
    monkeypatch.setattr(BackgroundRotation, "_round", noted)
    rotating = BackgroundRotation(tmp_path, lambda _: None, SandboxClock(path))
    rotating.start(at_once=False)
    try:
        await asyncio.sleep(0)
        assert not begun.is_set()
        SandboxClock(path, writable=True).set_ahead(86_400_000)
        async with asyncio.timeout(20):
            await begun.wait()
    finally:
        await rotating.stop()
