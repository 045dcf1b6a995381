"""Takes out old days whose table names are needed now, after the clock of a sandbox was moved by weeks."""

from datetime import date, timedelta

from archive.states import State
from rotation.daemon import DaemonSettings
from rotation.register import Operator
from rotation.steps import Rotation
from rotation.survey import survey

BY = Operator("clock", "the sandbox's clock was moved, and a new day needs the names of this one")


async def free_names(rotation: Rotation, today: date, ahead_days: int) -> None:
    """Detach each day that has the names of today's tables, or of the next `ahead_days` days'. Idempotent.

    By proof, as ever; the daemon archives these days later. Raises what `Rotation.run` raises: `day_unproven`,
    `rotation_busy` …; days before the one that failed are out.
    """
    seen = await survey(rotation.set_access, today, DaemonSettings().rules, with_obstacles=False)
    needed = [one for one in seen.coming if one.day <= today + timedelta(days=ahead_days)]
    for day in sorted({one.occupied_by for one in needed if one.occupied_by is not None}):
        await rotation.run(day, today, BY, until=State.DETACHED)
