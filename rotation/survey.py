"""One SET at a glance: every day with its plan, what stands in the way of days that are to go, tables made ahead."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import date

from archive.states import State
from days.finality import slots_of_all
from rotation import driver_errors, facts
from rotation.obstacles import known_obstacles
from rotation.plan import Action, AheadPlan, Alarm, DayPlan, Rules, alarm, plan_ahead, plan_day
from rotation.set_access import SetAccess
from runtime.postgres import Connection, connected


@dataclass(frozen=True)
class Survey:
    """What was found in one SET; `ahead` counts the days after today whose tables stand."""

    name: str
    days: list[DayPlan]
    coming: list[AheadPlan]
    ahead: int
    alarm: Alarm


async def survey(set_access: SetAccess, today: date, rules: Rules, *, with_obstacles: bool = True) -> Survey:
    """Read the catalog and the register; `with_obstacles`, also what stands in the way of days that are to go.

    Changes nothing and takes no lock, so a run may be at work meanwhile. Raises Unavailable `database_unavailable`.
    """
    with driver_errors.translated(set_access.name):
        return await _survey(set_access, today, rules, with_obstacles=with_obstacles)


async def _survey(set_access: SetAccess, today: date, rules: Rules, *, with_obstacles: bool) -> Survey:
    async with AsyncExitStack() as stack:
        connection = await _reading(stack, set_access.dsn)
        days = await facts.all_days(connection, set_access.databases)
        plans = [plan_day(one, today, rules) for one in days]
        if with_obstacles:
            wallet = await _reading(stack, set_access.wallet_dsn)
            plans = [await _with_obstacles(connection, wallet, one, today, rules) for one in plans]
        ahead, urgent = alarm(days, today)
        return Survey(set_access.name, plans, plan_ahead(days, today), ahead, urgent)


async def _with_obstacles(
    connection: Connection, wallet: Connection, plan: DayPlan, today: date, rules: Rules
) -> DayPlan:
    if plan.action not in (Action.ROTATE, Action.RESUME) or plan.facts.state is not State.HOT:
        return plan
    ours = sorted(xx for xx, state in plan.facts.states.items() if state is State.HOT)
    found = await known_obstacles(connection, wallet, plan.facts.day, slots_of_all(ours), plan.facts.foreign_databases)
    return plan_day(plan.facts, today, rules, found)


async def _reading(stack: AsyncExitStack, dsn: str) -> Connection:
    settings = {"application_name": "hongbao:rotate", "plan_cache_mode": "force_custom_plan"}
    return await stack.enter_async_context(connected(dsn, **settings))
