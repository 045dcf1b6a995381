"""`hongbao recover`: making good what a restored server has lost."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import date
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cli.archives import read_day
from cli.commands.recover_text import left_json, show_claims
from envelope.money import yuan
from errors import Refused
from installation.access import Access
from installation.finding import find_current
from recovery.claims import LostClaims, find_lost_claims, put_back
from recovery.lost import Lost, LostEnvelope, find_lost
from recovery.repair import repair
from recovery.repaired import Repaired
from runtime import postgres
from runtime.reporting import data_option, json_option, print_report, working
from runtime.wording import counted
from schema import roles
from setnode.header_seal import HeaderSeal
from setnode.services.fund_cursors import set_back
from setnode.services.payouts.stuck import redrive

_SHOWN = 20
_TELL_EVERY = 1_000


@click.group("recover")
def command() -> None:
    """Make good what a restored server has lost, from what the others know."""


@command.command("wallet")
@click.option("--since", help="First business day to look at.  [default: all that are in Postgres]")
@click.option("--yes/--dry-run", "sure", default=False, help="Make it good; without --yes this only counts.")
@click.option(
    "--while-served",
    is_flag=True,
    help="Go on though SETs serve users; a client's repeated create then becomes a second envelope.",
)
@data_option
@json_option
def wallet(*, since: str | None, sure: bool, while_served: bool, data: Path | None, as_json: bool) -> None:
    """Find the creates and credits that the SETs know of and a restored wallet does not; with --yes do them again.

    Each has the key or order number of its first time, so nothing moves twice, and the command may be repeated. Make
    deposits good first: what a sender's balance does not cover is named and left. With --yes all SETs must be paused
    (./run up --paused). Otherwise a client that repeats a create which the wallet has forgotten gets a second envelope,
    users spend the money that forgotten creates need, and the winners of those envelopes stay unpaid. Exit status 0 if
    nothing is missing any more; then run the audit.
    """
    began = time.monotonic()
    with working("comparing the SETs with the wallet") as status:
        access = find_current(data)
        if sure and not while_served:
            _refuse_served(access, [one.name for one in access.topology().sets])
        day = None if since is None else read_day(since)
        moved = asyncio.run(_set_sweepers_back(access)) if sure else {}
        lost, done = asyncio.run(_recover(access, day, status.update, sure=sure))
    report = {**_report(lost, done, time.monotonic() - began, sure=sure), "set_back": moved}
    print_report(report, as_json=as_json, show=lambda console: _show(report, console))
    sys.exit(0 if report["holds"] else 1)


@command.command("set")
@click.argument("name", metavar="SET")
@click.option("--yes/--dry-run", "sure", default=False, help="Put them back; without --yes this only counts.")
@data_option
@json_option
def set_(*, name: str, sure: bool, data: Path | None, as_json: bool) -> None:
    """Find the claims that the wallet has paid and a restored SET lacks; with --yes put them back.

    SET must be paused (./run up --paused), or its users would win shares that are not free. Better before it is opened:
    ./run backup restore SET --with-paid. Exit status 0 if none is missing any more; then ./run restart, and the audit.
    """
    with working(f"comparing the wallet with {name}"):
        lost = asyncio.run(_put_back(find_current(data), name, sure=sure))
    report = {
        "holds": not lost.left_count and (sure or not lost.number),
        "set": name,
        "lost_claims": lost.number + lost.left_claims,
        "put_back": lost.number if sure else 0,
        "fen": lost.fen,
        **left_json(lost),
    }
    print_report(report, as_json=as_json, show=lambda console: show_claims(lost, console, done=sure))
    sys.exit(0 if report["holds"] else 1)


async def _put_back(access: Access, name: str, *, sure: bool) -> LostClaims:
    target, lost = access.audit_target(name), LostClaims()
    if sure:
        _refuse_served(access, [name])
    async with aclosing(find_lost_claims(target, access.wallet_dsn(), lost)) as found:
        if sure:
            await put_back(access.set_dsn(name, roles.OWNER), found)
        else:
            async for _ in found:
                pass
    return lost


def _refuse_served(access: Access, names: Sequence[str]) -> None:
    """Raise Refused `set_not_paused` if one of these SETs serves users."""
    if served := [one.name for one in access.topology().sets if one.name in names and not one.paused]:
        pause = "; ".join(f"./run dba pause {name}" for name in served)
        raise Refused("set_not_paused", f"users are served by {', '.join(served)}: {pause}; then again")


async def _set_sweepers_back(access: Access) -> dict[str, tuple[int, int]]:
    """Set the sweepers back to where the wallet is, before it gives the numbers out again that it has lost."""
    owners = {one.name: access.set_dsn(one.name, roles.OWNER) for one in access.topology().sets}
    with postgres.loss_told("while the sweepers were set back; run it again"):
        return await set_back(access.wallet_dsn(roles.OWNER), owners)


async def _recover(access: Access, since: date | None, say: Any, *, sure: bool) -> tuple[Lost, Repaired]:
    """Return what is lost, and what became of it; where nothing is done, what nothing could be done of."""
    names = [one.name for one in access.topology().sets]
    targets = [access.audit_target(name) for name in names]
    seal = HeaderSeal(access.key("PASSWORD_KEY").encode())

    def find(counted: Lost) -> AsyncGenerator[LostEnvelope]:
        return find_lost(targets, access.wallet_dsn(), seal, counted, since)

    if not sure:
        lost, done = Lost(), Repaired()
        told = 0
        async with aclosing(find(lost)) as found:
            async for one in found:
                if one.broken:
                    done.miss_all(one, one.broken)
                if lost.envelopes >= told:
                    say(f"{lost.envelopes:,} envelopes compared")
                    told = lost.envelopes + _TELL_EVERY
        return lost, done
    async with AsyncExitStack() as stack:
        wallets = {name: await stack.enter_async_context(access.wallet(name)) for name in names}
        reader = await stack.enter_async_context(access.wallet())
        lost, done = await repair(find, wallets, reader, say)
    for name in names:
        with postgres.loss_told("while stuck payouts were driven again; ./run payout retry --all does it, too"):
            async with postgres.connected(access.set_dsn(name, roles.OWNER)) as connection:
                # What was refused meanwhile for want of its fund. All of it: a call before may have been killed here.
                await redrive(connection, access.clock.now())
    return lost, done


def _report(lost: Lost, done: Repaired, seconds: float, *, sure: bool) -> dict[str, Any]:
    return {
        "holds": not done.not_made_count and (sure or not lost.funds + lost.credits),
        "envelopes": lost.envelopes,
        "lost_creates": lost.funds,
        "lost_creates_fen": lost.funds_fen,
        "lost_credits": lost.credits,
        "lost_credits_fen": lost.credits_fen,
        "repaired": sure,
        "creates": done.funded,
        "credits": done.paid,
        "not_made": [one._asdict() | {"envelope_id": str(one.envelope_id)} for one in done.not_made],
        "not_made_count": done.not_made_count,
        "seconds": round(seconds, 1),
    }


def _show(report: dict[str, Any], console: Console) -> None:
    def say(line: str) -> None:
        console.print(line, highlight=False)

    lacks = (
        f"{counted(report['lost_creates'], 'create')} of {yuan(report['lost_creates_fen'])} yuan and "
        f"{counted(report['lost_credits'], 'credit')} of {yuan(report['lost_credits_fen'])} yuan"
    )
    say(f"of {report['envelopes']:,} envelopes the wallet lacks {lacks}")
    if report["repaired"]:
        say(f"{report['creates']:,} and {report['credits']:,} of them are made good")
    elif report["lost_creates"] + report["lost_credits"]:
        rest = ", but for what is named here" if report["not_made"] else ""
        say(f"./run recover wallet --yes makes them good{rest}; deposits first")
    for name, (old, new) in report["set_back"].items():
        say(f"the sweeper of {name} had seen fund {old}; it looks again from {new} on, the wallet's newest")
    cannot = "not made good" if report["repaired"] else "will not be made good"
    for one in report["not_made"][:_SHOWN]:
        what = f"{one['what']} of {one['envelope_id']}, {yuan(one['fen'])} yuan of {one['user']}"
        say(f"{cannot}: {what}: {one['why']}")
    if (more := report["not_made_count"] - min(_SHOWN, len(report["not_made"]))) > 0:
        say(f"and {more:,} more")
    say(f"{report['seconds']} s")
