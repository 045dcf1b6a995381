"""What happens to hosts: each fault is done, its SET serves again, and the region is made whole."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from errors import Unavailable
from hosts.drill.lane import Lane
from hosts.drill.load import Load, until_answered
from hosts.host import CABLES
from hosts.program import HostProgram
from hosts.region import Region

ANSWERS = 20
"""So many users are answered before a SET counts as serving."""
AGAIN_S = 90.0
HOLD_S = 5.0
PART_S = 15.0
FREEZE_S = 15.0
TARGET = "set-1"


@dataclass
class Scene:
    """What a step acts on. `lane` is that of the SET that suffers."""

    region: Region
    load: Load
    lane: Lane
    began: float = 0.0
    """When the fault began, by the loop's clock; set again by `mark`."""
    led_s: float | None = None
    """How long after that another Postgres led, to within a second: what is silent beyond that is ours."""

    def mark(self) -> None:
        """Say that the fault begins now: what came before was its preparation."""
        self.began = self.now()

    def now(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    async def serves(self, since: float) -> None:
        """Wait until the SET that suffers answers users."""
        await until_answered(self.lane, since, answers=ANSWERS, within_s=AGAIN_S)


Heal = Callable[[], Awaitable[None]]
"""Makes the region whole again; called when the figures of the fault are taken."""


async def lose_primary(scene: Scene) -> Heal:
    """A primary's host is lost: Postgres and its Patroni, without a word to anybody."""
    cluster = scene.region.clusters[TARGET]
    old = await _primary(scene)
    await old.host.lose()
    await _another_leads(scene, old)
    await scene.serves(scene.now())

    async def heal() -> None:
        await old.host.plug(*CABLES)
        old.start()
        await cluster.wait_until_whole()

    return heal


async def cut_off_primary(scene: Scene) -> Heal:
    """A primary no longer reaches etcd and its standbys; its setnodes reach it all the while."""
    cluster = scene.region.clusters[TARGET]
    old = await _primary(scene)
    await old.host.pull("back")
    await _another_leads(scene, old)
    await scene.serves(scene.now())

    async def heal() -> None:
        await old.host.plug("back")
        await cluster.wait_until_whole()

    return heal


async def lose_setnode(scene: Scene) -> Heal:
    """A setnode's host is lost, with the memcached of its SET."""
    region = scene.region
    name = region.plan.memcached_host(TARGET)
    await region.hosts[name].lose()
    began = scene.now()
    await scene.serves(began)
    await asyncio.sleep(HOLD_S)

    async def heal() -> None:
        await region.hosts[name].plug(*CABLES)
        region.memcached[TARGET].start()
        await region.services[name].start()

    return heal


async def lose_gateway(scene: Scene) -> Heal:
    """A gateway's host is lost; nginx sends its envelopes to the other."""
    region = scene.region
    name = "gateway-1"
    await region.hosts[name].lose()
    began = scene.now()
    await scene.serves(began)
    await asyncio.sleep(HOLD_S)

    async def heal() -> None:
        await region.hosts[name].plug(*CABLES)
        await region.services[name].start()

    return heal


async def lose_memcached(scene: Scene) -> Heal:
    """A SET's memcached is killed; everything else on its host lives on."""
    cache = scene.region.memcached[TARGET]
    await cache.kill()
    began = scene.now()
    await scene.serves(began)
    await asyncio.sleep(HOLD_S)

    async def heal() -> None:
        cache.start()

    return heal


async def part_setnode(scene: Scene) -> Heal:
    """A setnode and its primary no longer reach each other; both reach everybody else."""
    old = await _primary(scene)
    setnode = scene.region.hosts[scene.region.plan.setnodes(TARGET)[1]]
    await setnode.part_from(old.host)
    began = scene.now()
    await scene.serves(began)
    await asyncio.sleep(max(0.0, began + PART_S - scene.now()))
    await setnode.join(old.host)
    await scene.serves(scene.now())
    return nothing


async def freeze_primary(scene: Scene) -> Heal:
    """All processes of a primary's host stand still for FREEZE_S, and go on as if nothing had been."""
    old = await _primary(scene)
    await _freeze(scene, old.host.name)
    return scene.region.clusters[TARGET].wait_until_whole


async def freeze_setnode(scene: Scene) -> Heal:
    """The same of a setnode's host, with the memcached of its SET."""
    await _freeze(scene, scene.region.plan.memcached_host(TARGET))
    return nothing


async def _freeze(scene: Scene, name: str) -> None:
    host = scene.region.hosts[name]
    await host.freeze()
    try:
        await asyncio.sleep(FREEZE_S)
    finally:
        await host.thaw()
    await scene.serves(scene.now())


async def _primary(scene: Scene) -> HostProgram:
    return await scene.region.clusters[scene.lane.name].wait_until_led()


async def _another_leads(scene: Scene, old: HostProgram) -> None:
    cluster, began = scene.region.clusters[scene.lane.name], scene.now()
    while (await cluster.primary()) in (None, old):
        if scene.now() - began > AGAIN_S:
            raise Unavailable("no_failover", f"no other host of {cluster.name} leads after {AGAIN_S:g} s")
        await asyncio.sleep(0.2)
    scene.led_s = scene.now() - scene.began


async def nothing() -> None:
    """Nothing is left to be made whole."""
