"""A whole SET is lost, every host of it, and brought back from its backup on hosts that were empty."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

from backup.backups import Backups
from backup.folder import BackupFolder, LogState
from backup.logkeeper import LogKeeper
from backup.programs import Source
from errors import Unavailable
from hosts.drill import load
from hosts.drill.faults import Heal, Scene, nothing
from hosts.host import CABLES
from hosts.region import Region
from runtime.together import all_or_first_error

TARGET = "set-2"
STOCK_S = 90.0
"""The users of the other SETs go on opening while no envelope is made: half of them would be of the lost SET."""
RECEIVED_S = 60.0
"""For the receiver of the log to have all of it, once nobody writes any more."""
LOOK_S = 0.1


@contextlib.asynccontextmanager
async def being_backed_up(scene: Scene) -> AsyncIterator[LogKeeper]:
    """Take a base copy of the SET and receive its log for the block, as `hongbao backup take` and `log` do."""
    region = scene.region
    folder = region.mine.folder / "backup"
    keeper = LogKeeper(lambda: _source(region), BackupFolder(folder, TARGET), region.notify)
    stop = asyncio.Event()
    receiving = asyncio.create_task(keeper.receive(stop))
    try:
        await _received(keeper, receiving)
        await Backups(_source(region), folder).take()
        yield keeper
    finally:
        stop.set()
        await asyncio.wait({receiving})


async def lose_and_restore(scene: Scene) -> Heal:
    """Let the SET rest until the receiver has all of its log, lose it, restore it, let it serve.

    Without that rest the log's last milliseconds would be lost with the hosts: it is received after the commit.
    """
    region = scene.region
    async with being_backed_up(scene) as keeper:
        scene.load.stock_s = STOCK_S
        # Meanwhile the log receives what the base copy has not.
        await scene.load.stocked()
        await scene.load.rest(TARGET)
        await _received(keeper, None)
        for name in (*region.plan.postgres_hosts(TARGET), *region.plan.setnodes(TARGET)):
            await region.hosts[name].lose()
    scene.mark()
    scene.load.lanes[TARGET].open = True
    await _restore(region)
    scene.load.access = region.access()
    scene.load.stock_s = load.STOCK_S
    scene.load.go_on()
    await scene.serves(scene.now())
    return nothing


async def _restore(region: Region) -> None:
    spares = region.plan.spare_hosts(TARGET)
    first = region.hosts[spares[0]]
    backups = Backups(_source(region), region.mine.folder / "backup")
    into = region.mine.folder / "restored"
    server = await backups.restore(into, None)
    await server.stop()
    cluster = region.cluster(TARGET, spares, f"{TARGET}-restored")
    await asyncio.to_thread(shutil.move, server.spec.folder, first.folder / "postgres")
    # The first takes what was restored as it is; the others copy it.
    cluster.members[0].start()
    await cluster.wait_until_led()
    await cluster.begin()
    region.clusters[TARGET] = cluster
    await region.write_inventory()
    made = region.make_services()
    region.memcached[TARGET].host.folder.mkdir(exist_ok=True)
    setnodes = region.plan.setnodes(TARGET)
    for name in setnodes:
        await region.hosts[name].plug(*CABLES)
    region.memcached[TARGET].start()
    region.services |= {name: made[name] for name in setnodes}
    await all_or_first_error(*(region.services[name].start() for name in setnodes))


def _source(region: Region) -> Source:
    access = region.access()
    return Source(TARGET, access.superuser_dsn(TARGET), access.passwords(TARGET))


async def _received(keeper: LogKeeper, receiving: "asyncio.Task[None] | None") -> None:
    """Wait until the receiver has all that the server has flushed. Raises Unavailable `log_behind`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + RECEIVED_S
    while True:
        if receiving is not None and receiving.done():
            receiving.result()
        status = await keeper.status()
        if status.state is LogState.KEPT and not status.behind_bytes:
            return
        if loop.time() > end:
            raise Unavailable("log_behind", f"the log of {TARGET} is {status.state}, {status.behind_bytes} bytes late")
        await asyncio.sleep(LOOK_S)
