"""What readers see when the envelope's server changes: never an older state than somebody was told."""

import asyncio

from tests.integration.setnode.fixtures import Town, town

__all__ = ["town"]


async def test_a_stand_in_shows_what_the_owner_wrote_meanwhile(town: Town) -> None:
    """A server that once stood in for another reads the log anew before it shows it."""
    envelope_id = await town.create(1_000, 10)
    await town.open(envelope_id, "first", node=town.other(envelope_id))
    for number in range(4):
        await town.open(envelope_id, f"u{number}")
    detail = await town.ask_detail(envelope_id, node=town.other(envelope_id))
    assert detail["claimed_count"] == 5


async def test_an_owner_that_was_taken_for_dead_shows_what_others_wrote(town: Town) -> None:
    """A stand-in's claim reaches the owner's readers though the owner itself was never asked to write."""
    envelope_id = await town.create(1_000, 10)
    await town.open(envelope_id, "first")
    await town.open(envelope_id, "second", node=town.other(envelope_id))
    async with asyncio.timeout(5):
        while (await town.detail(envelope_id, "sender"))["claimed_count"] != 2:
            await asyncio.sleep(0.01)
