"""Payouts that no retry will pay: shares that were won and are not credited."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from doctor.finding import Finding, Level
from doctor.limits import REASONS_SHOWN
from doctor.place import Place
from errors import Unavailable
from installation.access import Access
from runtime import postgres
from runtime.wording import counted
from schema import roles
from setnode.services.payouts.stuck import StuckPayout, count_stuck, stuck_payouts


async def payouts(place: Place) -> list[Finding]:
    """Ask each SET; one that does not answer is left to `parts`."""
    if place.access is None or place.topology is None:
        return []
    names = [one.name for one in place.topology.sets]
    answers = await asyncio.gather(*(_stuck(place.access, name) for name in names))
    answered = {name: one for name, one in zip(names, answers, strict=True) if one is not None}
    found = list(judge(answered))
    if answered and not found:
        together = ", ".join(answered)
        found.append(Finding("payouts", Level.OK, together, f"no payout of {together} is stuck"))
    return found


class Stuck(NamedTuple):
    """How many payouts of a SET are stuck, and the oldest of them."""

    many: int
    oldest: Sequence[StuckPayout]


async def _stuck(access: Access, name: str) -> Stuck | None:
    try:
        async with postgres.connected(access.set_dsn(name, roles.AUDIT)) as connection:
            return Stuck(await count_stuck(connection), await stuck_payouts(connection))
    except Unavailable:
        return None


def judge(stuck: Mapping[str, Stuck]) -> Iterator[Finding]:
    """Say which SETs have stuck payouts, with the reasons of the oldest."""
    for name, some in stuck.items():
        if some.many:
            reasons = "; ".join(sorted({one.reason for one in some.oldest})[:REASONS_SHOWN])
            what = f"{counted(some.many, 'payout')} of {name} stuck: {reasons}."
            do = "./run payout stuck shows them; mend the reason, then ./run payout retry --all."
            yield Finding("payouts", Level.WRONG, name, what, do)
