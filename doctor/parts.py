"""Which parts are away or do not answer, and which end again and again."""

import asyncio
import errno
from collections import Counter
from datetime import UTC, datetime, timedelta

from doctor.finding import Finding, Level
from doctor.limits import CRASHES_S, OFTEN
from doctor.place import Place
from installation.access import Access
from installation.data_folder import DataFolder
from local.crashes import count_ends
from local.named_parts import named_parts
from local.running import is_alive
from local.status import PartStatus, database_problem, part_statuses
from machine.logfile import LogFile
from runtime.wording import counted

_NOBODY = f"[Errno {errno.ECONNREFUSED}]"


async def parts(place: Place) -> list[Finding]:
    """Ask each part that ./run has started; without such a stack, each database server that the inventory names.

    Of an installation that something else starts: each part that its files name.
    """
    if place.access is None or place.topology is None:
        return []
    if place.running is None and place.access.runner:
        return await _databases(place.access, place.folder)
    asked = await part_statuses(place.running or await named_parts(place.access), place.access)
    away = [_away(one) for one in asked if not one.answers]
    return away or [Finding("parts", Level.OK, "parts", f"{counted(len(asked), 'part')} answer")]


def _away(one: PartStatus) -> Finding:
    if not one.pid:
        what = f"{one.name} at {one.address} does not answer as it should: {one.detail}."
        do = "See on its host whether it runs, and what it logs."
        if ", " in one.address:
            do = "A failover takes half a minute; after that see whether one of these hosts leads (patronictl list)."
        return Finding("parts", Level.WRONG, one.name, what, do)
    if not is_alive(one.pid):
        what = f"{one.name} does not run (process {one.pid} has ended)."
        return Finding("parts", Level.WRONG, one.name, what, f"./run restart {one.name}; ./run logs says why it ended.")
    what = f"{one.name} runs and does not answer as it should: {one.detail}."
    do = f"./run logs {one.name} may say why; ./run restart {one.name} starts it again."
    return Finding("parts", Level.WRONG, one.name, what, do)


async def _databases(access: Access, folder: DataFolder) -> list[Finding]:
    names = access.servers()
    problems = dict(zip(names, await asyncio.gather(*(database_problem(access, one) for one in names)), strict=True))
    # Only where nobody listens: a server that refuses the password, or hangs, is no server that was not started.
    if all(_NOBODY in one for one in problems.values()):
        what = f"Nothing runs on {folder.path}."
        return [Finding("parts", Level.NOTE, str(folder.path), what, "./run starts it.")]
    return [
        Finding("parts", Level.WRONG, name, f"The Postgres of {name} does not answer: {why}.", f"Start {name}.")
        for name, why in problems.items()
        if why
    ]


def restarts(place: Place) -> list[Finding]:
    """Name parts that have ended OFTEN within CRASHES_S, by the supervisor's log."""
    if place.running is None:
        return []
    since = datetime.now(UTC) - timedelta(seconds=CRASHES_S)
    return often(count_ends(LogFile(place.folder.log("supervisor")), since))


def often(ends: Counter[str]) -> list[Finding]:
    """Say which of these parts end again and again."""
    return [
        Finding(
            "restarts", Level.WRONG, name,
            f"{name} has ended {number} times within the last hour, and was started again each time.",
            f"./run logs {name} says what it logged last, ./run logs how each ended.",
        )
        for name, number in sorted(ends.items())
        if number >= OFTEN
    ]  # fmt: skip
