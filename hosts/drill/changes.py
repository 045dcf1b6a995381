"""What an operator does under load: a new version in every process, a database to another SET."""

import asyncio

from hosts.drill.faults import TARGET, Heal, Scene, nothing
from moving.context import context_of
from moving.moves import move_live
from sharding.slots import database_name

STEADY_S = 1.5
"""As `local.rolling_restart` waits: a gateway gives a server that was away its envelopes back after a second."""


async def roll(scene: Scene) -> Heal:
    """Restart every process of ours, one after the other, drained: wallet, setnodes, gateways."""
    for number, one in enumerate(scene.region.services.values()):
        if number:
            await asyncio.sleep(STEADY_S)
        await one.restart()
    await scene.serves(scene.now())
    return nothing


async def move(scene: Scene) -> Heal:
    """Move a database of the SET to another one, live."""
    access = scene.region.access()
    topology = access.topology()
    database = next(xx for xx in topology.databases_of(TARGET))
    other = next(one.name for one in topology.sets if one.name != TARGET)
    await move_live(context_of(access), database_name(database), other)
    scene.load.sort()
    await scene.serves(scene.now())
    return nothing
