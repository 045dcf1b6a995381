"""The steps of the drill in their order."""

from errors import HongbaoError
from loadtest.drill import day_steps, set_steps
from loadtest.drill.context import DrillContext


async def run(drill: DrillContext) -> None:
    """Take all steps. An error of ours (HongbaoError) ends the drill and is added to the failures."""
    try:
        await set_steps.build(drill)
        large, small = await day_steps.load(drill)
        await day_steps.detach(drill, large, small)
        await day_steps.store(drill, large, small)
        await day_steps.let_go(drill, large, small)
        await set_steps.move(drill)
        await set_steps.weigh(drill)
        await set_steps.audit(drill)
    except HongbaoError as error:
        drill.failures.append(f"{error.code}: {error.detail}")
