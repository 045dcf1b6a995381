"""The steps of the drill in their order."""

from envelope.errors import HongbaoError
from loadtest.drill import day, sets
from loadtest.drill.ground import Drill


async def run(drill: Drill) -> None:
    """Do all of it. What fails on purpose ends the drill with its sentence among the failures."""
    try:
        await sets.build(drill)
        large, small = await day.load(drill)
        await day.detach(drill, large, small)
        await day.store(drill, large, small)
        await day.let_go(drill, large, small)
        await sets.move(drill)
        await sets.weigh(drill)
        await sets.audit(drill)
    except HongbaoError as error:
        drill.failures.append(f"{error.code}: {error.detail}")
