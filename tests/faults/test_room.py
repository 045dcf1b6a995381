"""The group chat that goes on by itself: members send and open, also what the visitor sends; the money adds up."""

import asyncio
import random
from pathlib import Path

import pytest

from demo import room as room_module
from demo.people import People
from demo.room import Room
from local import play
from tests.faults.stack_fixtures import running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

VISITOR = "alice"


async def test_members_play_beside_a_visitor(server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They find in their lists what waits for them, leave the visitor alone, and hear one amount each."""
    monkeypatch.setattr(room_module, "SEND_S", (0.3, 0.6))
    monkeypatch.setattr(room_module, "LOOK_S", 0.3)
    monkeypatch.setattr(room_module, "TAP_S", 0.2)
    said: list[str] = []
    async with running_stack(server_folder / "data", play_users=play.NAMES) as one:
        await play.give_money(one.access, play.NAMES)
        async with People(one.access.gateway_url, one.access.token) as people:
            room, stop = Room(people, play.NAMES, VISITOR, random.Random(3), said.append), asyncio.Event()
            playing = asyncio.ensure_future(room.run(stop))
            mine = await people[VISITOR].create(total_fen=900, count=9, to=[*play.NAMES], greeting="from the visitor")
            async with asyncio.timeout(60):
                while True:
                    detail = await people[VISITOR].detail(mine)
                    if detail.claimed_count == 9 and room.seen.sent >= 5 and room.seen.opened >= 30:
                        break
                    assert not playing.done(), playing.exception()
                    await asyncio.sleep(0.1)
            waiting = [one async for one in people[VISITOR].waiting()]
            stop.set()
            await playing
        assert room.seen.contradictions == []
        assert room.seen.visitor_sent == 1
        assert "alice: from the visitor (9)" in said
        assert VISITOR not in {claim.user for claim in detail.claims}
        assert waiting
        assert {one.sender for one in waiting if one.status == "open"} <= {*play.NAMES} - {VISITOR}
        assert (await one.settled_audit()).holds
