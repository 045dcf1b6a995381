"""A load test from beginning to end: a stack, money for senders, the clients, and the proof."""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from envelope.money import MAX_TOTAL_FEN
from installation.access import Access
from installation.finding import find
from loadtest.load.clients import Web, check_locust, play
from loadtest.load.report import LoadReport, make_report
from loadtest.openloop.job import Job, run_job
from loadtest.openloop.opens import SHARES, create, guests
from loadtest.openloop.schedule import Arrivals
from loadtest.profiles import PROFILES
from loadtest.run_proof import audit_when_paid, contradicted
from loadtest.tally import Tally
from loadtest.users.world import LoadPlan, Message
from local.attach import attach_or_start
from local.config import StackConfig
from local.stack import Stack
from machine.ports import free_port

SENDERS: Final = 200
"""Users with money, in turn: creates of one sender wait for each other at the sender's account."""
OPENLOOP: Final = "openloop"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """The caller's options; None where the profile decides. `rate` and `connections` are for the open loop."""

    profile: str
    quick: bool = False
    users: int | None = None
    seconds: int | None = None
    workers: int = 0
    web: bool = False
    rate: float = 1_000.0
    connections: int = 256
    arrivals: Arrivals = Arrivals.POISSON


@contextlib.asynccontextmanager
async def some_stack(data: Path | None, scratch: Path, sets: int, servers: int) -> AsyncIterator[Access]:
    """Yield the stack of a data folder (started if it is not up), or one in scratch that ends with the block."""
    if data is not None:
        async with attach_or_start(data) as access:
            yield access
        return
    # Tomorrow's tables are enough for a stack that ends with the block, and those of a week are seconds of its start.
    config = StackConfig(scratch / "data", port=0, sets=sets, servers=servers, ahead_days=1, notify=lambda _: None)
    async with Stack(config):
        yield find(scratch / "data")


async def run(
    wanted: Wanted, data: Path | None, say: Say, *, sets: int = 1, servers: int = 1
) -> tuple[LoadReport, Tally]:
    """Run a load test; everything that it started is stopped when this returns or raises."""
    if wanted.profile != OPENLOOP:
        check_locust()
    with tempfile.TemporaryDirectory(prefix="hongbao-loadtest-") as name:
        scratch = Path(name)
        # Postgres, which may run as another account, passes through; what clients know is in a folder closed to it.
        scratch.chmod(0o711)
        (scratch / "clients").mkdir(mode=0o700)
        say("starting everything")
        async with some_stack(data, scratch, sets, servers) as access:
            clients = _open_loop if wanted.profile == OPENLOOP else _people
            asked, tally = await clients(wanted, access, scratch / "clients", say)
            say("waiting for payouts, then the audit")
            proof = await audit_when_paid(access)
            say("comparing what clients received with the claim log")
            wrong = await contradicted(access, tally.won)
    return make_report(wanted.profile, asked, tally, proof, wrong), tally


async def _people(wanted: Wanted, access: Access, folder: Path, say: Say) -> tuple[dict[str, Any], Tally]:
    profile = PROFILES[wanted.profile]
    size = profile.quick if wanted.quick else profile.full
    senders = [f"sender-{number}" for number in range(SENDERS)]
    say("putting money into the senders' wallets")
    async with access.wallet() as wallet:
        for sender in senders:
            await wallet.deposit(access.order_no(), sender, MAX_TOTAL_FEN)
    hot: Message | None = None
    if profile.name == "hot":
        (made,) = await create(access, 1, size.shares)
        hot = Message(made.envelope_id, made.share_id)
    plan = LoadPlan(
        profile=profile.name,
        url=access.gateway_url,
        folder=str(folder),
        users=wanted.users or size.users,
        seconds=wanted.seconds or size.seconds,
        workers=wanted.workers,
        groups=size.groups,
        shares=size.shares,
        senders=senders,
        hot=hot,
    )
    web = Web(free_port()) if wanted.web else None
    if web is not None:
        say(f"locust's page is at {web.url}")

    def progress(seen: Any) -> None:
        page = f" · {web.url}" if web else ""
        say(f"{seen['phase']}: {seen['users']} people, {seen['requests']:,} requests, {seen['rate']:,.0f}/s{page}")

    say("starting locust")
    tally = await play(plan, access.token_environment(), web, progress)
    asked = {"users": plan.users, "seconds": plan.seconds, "workers": plan.workers, "quick": wanted.quick}
    return asked, tally


async def _open_loop(wanted: Wanted, access: Access, folder: Path, say: Say) -> tuple[dict[str, Any], Tally]:
    seconds = wanted.seconds or (10 if wanted.quick else 30)
    # A Poisson process brings some more than its mean; beyond the last share users receive sold_out, which is fine.
    opens = int(wanted.rate * seconds * 1.05) + SHARES
    say(f"making envelopes for {opens:,} opens")
    some = await guests(access, opens)
    say(f"{wanted.rate:,.0f} opens/s for {seconds} s, open loop")
    job = Job(access.gateway_url, some, wanted.rate, seconds, wanted.connections, wanted.arrivals)
    finding, tally = await run_job(job, folder)
    for second in tally.seconds.values():
        second.client_cpu = finding.client_cpu
    asked = {"rate": wanted.rate, "seconds": seconds, "connections": wanted.connections, "arrivals": wanted.arrivals}
    return {
        **asked,
        "answered_per_second": round(finding.rate, 1),
        "client_cpu_us": round(finding.client_cpu_us, 1),
    }, tally
