"""Whom a switch would hit: SETs and databases, envelopes that wait there, requests of that kind in a second."""

import asyncio
import re

import aiohttp
import msgspec

from errors import Unavailable
from inspection.limits import ASK_S
from installation.access import Access
from runtime import postgres
from runtime.wording import counted
from sharding.ids import first_id
from sharding.slots import database_name, slots_of
from switches.switch import Closes, Switch

_ROUTES = {
    Closes.CREATES: ("createEnvelope",),
    Closes.GRABS: ("grabEnvelope",),
    Closes.OPENS: ("openEnvelope",),
    Closes.VIEWS: ("getEnvelope",),
    Closes.LISTS: ("listWalletEntries", "listMyEnvelopes", "getTotals"),
    Closes.PAYOUTS: (),
}
_WAITING = "SELECT count(*) FROM due WHERE expires_at > $3 AND (envelope_id % 1000) BETWEEN $1 AND $2"
_UNPAID = "SELECT coalesce(sum(cardinality(seqs)), 0)::bigint FROM payout_batch"
_SAMPLE_S = 1.0


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """`envelopes`: that may still be opened there. `unpaid`: shares won and not credited yet. None: not asked, or away.

    `per_s`: requests of this kind in a second, for all SETs, at the gateway that was asked (one, where several share a
    port); None if it does not tell.
    """

    sets: list[str]
    databases: list[str]
    envelopes: int | None = None
    unpaid: int | None = None
    per_s: float | None = None

    def sentence(self) -> str:
        """Say it to an operator."""
        said = [f"hits {', '.join(self.sets)} ({counted(len(self.databases), 'database')})"]
        if self.envelopes is not None:
            said.append(f"{counted(self.envelopes, 'envelope')} that can still be opened")
        if self.unpaid is not None:
            said.append(f"{counted(self.unpaid, 'share')} won and not credited yet")
        if self.per_s is not None:
            said.append(f"{self.per_s:.0f} such requests a second now, for all SETs, at the gateway that was asked")
        return "; ".join(said)


async def effect(access: Access, one: Switch) -> Effect:
    """Ask Postgres and the gateways; what does not answer within ASK_S is left out."""
    topology = access.topology()
    numbers = one.databases(topology, first_id(access.today()))
    homes = {xx: topology.set_for_database(xx, access.today()).name for xx in numbers}
    sets = sorted(set(homes.values()))
    counts = [_count(access, name, [xx for xx in numbers if homes[xx] == name], one.closes) for name in sets]
    found, per_s = await asyncio.gather(asyncio.gather(*counts), _rate(access, _ROUTES[one.closes]))
    total = None if None in found else sum(number for number in found if number is not None)
    return Effect(
        sets=sets,
        databases=[database_name(xx) for xx in numbers],
        envelopes=total if one.closes in (Closes.OPENS, Closes.GRABS, Closes.VIEWS) else None,
        unpaid=total if one.closes is Closes.PAYOUTS else None,
        per_s=per_s,
    )


async def _count(access: Access, set_name: str, numbers: list[int], closes: Closes) -> int | None:
    """Count what waits on a SET; 0 where this switch has nothing to count, None if the SET does not answer."""
    if closes in (Closes.CREATES, Closes.LISTS):
        return 0
    try:
        async with asyncio.timeout(ASK_S), postgres.connected(access.set_dsn(set_name)) as connection:
            if closes is Closes.PAYOUTS:
                return int(await connection.fetchval(_UNPAID))
            ranges, now = [slots_of(xx) for xx in numbers], access.clock.now()
            return sum([int(await connection.fetchval(_WAITING, one.start, one.stop - 1, now)) for one in ranges])
    except Exception as error:
        if isinstance(error, OSError | TimeoutError | Unavailable) or postgres.is_lost(error):
            return None
        raise


async def _rate(access: Access, routes: tuple[str, ...]) -> float | None:
    """Return how many requests the gateway answers in a second on these routes; None if it does not tell."""
    if not routes:
        return None
    timeout = aiohttp.ClientTimeout(total=ASK_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=access.metrics_headers()) as session:
            before = await _answered(session, access.gateway_url, routes)
            await asyncio.sleep(_SAMPLE_S)
            return max(0.0, (await _answered(session, access.gateway_url, routes) - before) / _SAMPLE_S)
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None


async def _answered(session: aiohttp.ClientSession, url: str, routes: tuple[str, ...]) -> float:
    async with session.get(f"{url}/metrics", raise_for_status=True) as answer:
        text = await answer.text()
    pattern = rf'^hongbao_http_requests_total{{route="(?:{"|".join(routes)})",[^}}]*}} (\S+)$'
    return sum(float(number) for number in re.findall(pattern, text, re.MULTILINE))
