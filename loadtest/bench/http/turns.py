"""What each contender does in its turn; every turn returns requests a second, all of them wins."""

import json
import secrets

from loadtest.baseline_server import Mode
from loadtest.bench.http.http_bench import HttpBench
from loadtest.run_proof import all_paid
from loadtest.wrk import client as wrk
from loadtest.wrk import prepared

POOLS = {"many": (8, 16, 32, 48), "hot": (2, 4, 8, 16)}
"""Sizes of the lock's pool that are tried: few at one envelope, where connections only wait for each other. The server
allows 60 and our own processes have some."""
SWEEP_S = 1.0
WARM_UP_S = 1.0


async def warm_up(http: HttpBench, key: str) -> None:
    """Open some in our stack before anything counts: its backends read the catalog of all day tables at their first.

    The lock's backends are new in every turn and have two tables to read of.
    """
    http.check(name_of("ours", key), await _ours(http, key, WARM_UP_S))


async def ours(http: HttpBench, key: str) -> float:
    """Open the next prepared shares in our stack; payouts are waited for after the measured time."""
    fired = await _ours(http, key, http.seconds)
    http.note(name_of("ours", key), fired)
    return fired.per_second


async def create(http: HttpBench) -> float:
    """Create envelopes of 20 shares."""
    fired = await wrk.fire(
        http.access.gateway_url, http.create_s, http.data, wrk.CREATE,
        secrets.token_hex(8), http.access.token(prepared.SENDER), json.dumps(prepared.terms()),
    )  # fmt: skip
    http.note("create", fired)
    return fired.per_second


async def pools(http: HttpBench, key: str) -> dict[int, float]:
    """Try the lock with each size of pool."""
    return {size: (await _lock(http, key, SWEEP_S, size)).per_second for size in POOLS[key]}


async def pessimistic(http: HttpBench, key: str, pool: int) -> float:
    """Open the same shares under the lock."""
    fired = await _lock(http, key, http.seconds, pool)
    http.note(name_of("pessimistic", key), fired)
    return fired.per_second


async def constant(http: HttpBench, name: str, url: str) -> float:
    """Ask a server that answers a constant."""
    fired = await wrk.fire_opens(url, http.seconds, http.data, http.opens["many"].path)
    http.note(name, fired)
    return fired.per_second


def name_of(contender: str, key: str) -> str:
    """Name a contender at a workload: the plain name at many envelopes."""
    return contender if key == "many" else f"{contender}_{key}"


async def _ours(http: HttpBench, key: str, seconds: float) -> wrk.Fired:
    opens = http.opens[key]
    fired = await wrk.fire_opens(http.access.gateway_url, seconds, http.data, opens.path, skip=opens.at % opens.lines)
    # Those in flight when wrk stops were sent too.
    opens.at += fired.requests + wrk.CONNECTIONS
    http.answered += fired.requests
    if fired.requests > wrk.prepared_for(seconds) or opens.at > opens.lines:
        http.offs.append(f"the {opens.lines} prepared opens ({key}) did not last, later ones were repeats")
    await all_paid(http.access)
    return fired


async def _lock(http: HttpBench, key: str, seconds: float, pool: int) -> wrk.Fired:
    """Give the lock its turn with a pool of this size, on the same envelopes, and check its money."""
    opens = http.opens[key]
    await http.books.prepare(opens.envelopes, opens.shares, opens.shares * prepared.FEN)
    async with http.served(Mode.PESSIMISTIC, pool) as service:
        fired = await wrk.fire_opens(service.url, seconds, http.data, opens.path)
    money = await http.books.balance(await http.books.left_in_rows_fen())
    if not money.holds or money.stored < fired.requests:
        http.offs.append(f"the lock answered {fired.requests} and holds {money}")
    return fired
