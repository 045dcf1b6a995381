"""A look at one SET: every day with its plan, the obstacles of those that are to go, and the tables made ahead."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import date
from typing import Any

from archive.states import State
from rotation import facts, faults
from rotation.obstacles import quick_look, slots_of_all
from rotation.plan import Action, AheadPlan, Alarm, DayPlan, Rules, alarm, plan_ahead, plan_day
from rotation.target import RotationTarget
from runtime import postgres


@dataclass(frozen=True)
class Survey:
    """What stands in one SET; `ahead` counts the days after today whose tables are ready."""

    name: str
    days: list[DayPlan]
    coming: list[AheadPlan]
    ahead: int
    alarm: Alarm


async def survey(target: RotationTarget, today: date, rules: Rules, *, look: bool = True) -> Survey:
    """Read the catalog, the register and (`look`) what stands in the way of days that are to go. Changes nothing.

    Raises Unavailable `database_unavailable`.
    """
    with faults.of_set(target.name):
        return await _survey(target, today, rules, look=look)


async def _survey(target: RotationTarget, today: date, rules: Rules, *, look: bool) -> Survey:
    async with AsyncExitStack() as stack:
        connection = await _reading(stack, target.dsn)
        days = await facts.all_days(connection, target.databases)
        plans = [plan_day(one, today, rules) for one in days]
        if look:
            wallet = await _reading(stack, target.wallet_dsn)
            plans = [await _looked_at(connection, wallet, one, today, rules) for one in plans]
        ahead, urgent = alarm(days, today)
        return Survey(target.name, plans, plan_ahead(days, today), ahead, urgent)


async def _looked_at(connection: Any, wallet: Any, plan: DayPlan, today: date, rules: Rules) -> DayPlan:
    if plan.action not in (Action.ROTATE, Action.RESUME) or plan.facts.state is not State.HOT:
        return plan
    ours = sorted(xx for xx, state in plan.facts.states.items() if state is State.HOT)
    found = await quick_look(connection, wallet, plan.facts.day, slots_of_all(ours), plan.facts.strangers)
    return plan_day(plan.facts, today, rules, found)


async def _reading(stack: AsyncExitStack, dsn: str) -> Any:
    connection = await postgres.connect(dsn, application_name="hongbao:rotate", plan_cache_mode="force_custom_plan")
    stack.push_async_callback(connection.close, timeout=2.0)
    return connection
