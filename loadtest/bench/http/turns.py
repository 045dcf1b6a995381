"""What each contender does in its turn; every turn returns requests a second, all of them wins."""

import json
import secrets

from loadtest import crowd, wrk
from loadtest.bench.http.ground import Ground
from loadtest.proof import all_paid
from loadtest.rival_server import Mode

POOLS = {"many": (8, 16, 32, 48), "hot": (2, 4, 8, 16)}
"""Sizes of the lock's pool that are tried: few at one envelope, where connections only wait for each other. The server
allows 60 and our own processes have some."""
SWEEP_S = 1.0
WARM_UP_S = 1.0


async def warm_up(ground: Ground, key: str) -> None:
    """Open some in our stack before anything counts: its backends read the catalog of all day tables at their first.

    The lock's backends are new in every turn and have two tables to read of.
    """
    ground.check(name_of("ours", key), await _ours(ground, key, WARM_UP_S))


async def ours(ground: Ground, key: str) -> float:
    """Open the next prepared shares in our stack; what is left to pay out is waited for after the clock."""
    fired = await _ours(ground, key, ground.seconds)
    ground.note(name_of("ours", key), fired)
    return fired.per_second


async def create(ground: Ground) -> float:
    """Create envelopes of 20 shares."""
    fired = await wrk.fire(
        ground.access.gateway_url, ground.create_s, ground.data, wrk.CREATE,
        secrets.token_hex(8), ground.access.token(crowd.SENDER), json.dumps(crowd.terms()),
    )  # fmt: skip
    ground.note("create", fired)
    return fired.per_second


async def pools(ground: Ground, key: str) -> dict[int, float]:
    """Try the lock with each size of pool."""
    return {size: (await _lock(ground, key, SWEEP_S, size)).per_second for size in POOLS[key]}


async def pessimistic(ground: Ground, key: str, pool: int) -> float:
    """Open the same shares under the lock."""
    fired = await _lock(ground, key, ground.seconds, pool)
    ground.note(name_of("pessimistic", key), fired)
    return fired.per_second


async def constant(ground: Ground, name: str, url: str) -> float:
    """Ask a server that answers a constant."""
    fired = await wrk.fire_opens(url, ground.seconds, ground.data, ground.opens["many"].path)
    ground.note(name, fired)
    return fired.per_second


def name_of(contender: str, key: str) -> str:
    """Name a contender at a workload: the plain name at many envelopes."""
    return contender if key == "many" else f"{contender}_{key}"


async def _ours(ground: Ground, key: str, seconds: float) -> wrk.Fired:
    opens = ground.opens[key]
    fired = await wrk.fire_opens(
        ground.access.gateway_url, seconds, ground.data, opens.path, skip=opens.at % opens.lines
    )
    # Those in flight when wrk stops were sent too.
    opens.at += fired.requests + wrk.CONNECTIONS
    ground.told += fired.requests
    if fired.requests > wrk.prepared_for(seconds) or opens.at > opens.lines:
        ground.offs.append(f"the {opens.lines} prepared opens ({key}) did not last, later ones were repeats")
    await all_paid(ground.access)
    return fired


async def _lock(ground: Ground, key: str, seconds: float, pool: int) -> wrk.Fired:
    """Let the lock have its turn with a pool of this size, on the same envelopes, and check its money."""
    opens = ground.opens[key]
    await ground.books.prepare(opens.envelopes, opens.shares, opens.shares * crowd.FEN)
    async with ground.served(Mode.PESSIMISTIC, pool) as service:
        fired = await wrk.fire_opens(service.url, seconds, ground.data, opens.path)
    money = await ground.books.balance(await ground.books.left_in_rows_fen())
    if not money.holds or money.stored < fired.requests:
        ground.offs.append(f"the lock answered {fired.requests} and holds {money}")
    return fired
