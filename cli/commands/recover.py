"""`hongbao recover`: making good what a restored server has lost."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import date
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cli.archives import read_day
from envelope.money import yuan
from errors import Refused
from installation.access import Access
from installation.finding import find_current
from recovery.claims import LostClaims, lost_claims, put_back
from recovery.lost import Lost, LostOf, find_lost
from recovery.repair import repair
from recovery.repaired import Repaired
from runtime import postgres
from runtime.reporting import data_option, json_option, print_report, working
from runtime.wording import counted
from schema import roles
from setnode.header_seal import HeaderSeal
from setnode.services.payouts.stuck import redrive

_SHOWN = 20
_TELL_EVERY = 1_000


@click.group("recover")
def command() -> None:
    """Make good what a restored server has lost, from what the others know."""


@command.command("wallet")
@click.option("--since", help="First business day to look at.  [default: all that are in Postgres]")
@click.option("--yes/--dry-run", "sure", default=False, help="Make it good; without --yes this only counts.")
@data_option
@json_option
def wallet(*, since: str | None, sure: bool, data: Path | None, as_json: bool) -> None:
    """Find the creates and credits that the SETs know of and a restored wallet does not; with --yes do them again.

    Each has the key or order number of its first time, so nothing moves twice, and the command may be repeated. Make
    deposits good first: what a sender's balance does not cover is named and left. Exit status 0 if nothing is missing
    any more; then run the audit.
    """
    began = time.monotonic()
    with working("comparing the SETs with the wallet") as status:
        lost, done = asyncio.run(
            _recover(find_current(data), None if since is None else read_day(since), status.update, sure=sure)
        )
    report = _report(lost, done, time.monotonic() - began)
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
        "holds": not lost.left_count and (sure or not lost.rows),
        "set": name,
        "lost_claims": len(lost.rows) + lost.left_claims,
        "put_back": len(lost.rows) if sure else 0,
        "fen": lost.fen,
        "not_put_back": lost.left,
        "not_put_back_count": lost.left_count,
    }

    def show(console: Console) -> None:
        done = "put back" if sure else "missing; --yes puts them back"
        console.print(f"{counted(len(lost.rows), 'claim')} of {yuan(lost.fen)} yuan {done}", highlight=False)
        for one in lost.left:
            console.print(f"not put back: {one}", highlight=False)
        if (more := lost.left_count - len(lost.left)) > 0:
            console.print(f"and {counted(more, 'envelope')} more", highlight=False)

    print_report(report, as_json=as_json, show=show)
    sys.exit(0 if report["holds"] else 1)


async def _put_back(access: Access, name: str, *, sure: bool) -> LostClaims:
    target = access.audit_target(name)
    if sure and not any(one.paused for one in access.topology().sets if one.name == name):
        raise Refused("set_not_paused", f"users are served by {name}: ./run dba pause {name}, then again")
    lost = await lost_claims(target, access.wallet_dsn())
    if sure:
        await put_back(access.set_dsn(name, roles.OWNER), lost)
    return lost


async def _recover(access: Access, since: date | None, say: Any, *, sure: bool) -> tuple[Lost, Repaired | None]:
    names = [one.name for one in access.topology().sets]
    targets = [access.audit_target(name) for name in names]
    seal = HeaderSeal(access.key("PASSWORD_KEY").encode())

    def find(counted: Lost) -> AsyncGenerator[LostOf]:
        return find_lost(targets, access.wallet_dsn(), seal, counted, since)

    if not sure:
        lost = Lost()
        told = 0
        async for _ in find(lost):
            if lost.envelopes >= told:
                say(f"{lost.envelopes:,} envelopes compared")
                told = lost.envelopes + _TELL_EVERY
        return lost, None
    async with AsyncExitStack() as stack:
        wallets = {name: await stack.enter_async_context(access.wallet(name)) for name in names}
        reader = await stack.enter_async_context(access.wallet())
        lost, done = await repair(find, wallets, reader, say)
    for name in names:
        async with postgres.connected(access.set_dsn(name, roles.OWNER)) as connection:
            # What was refused meanwhile for want of its fund. All of it: a call before may have been killed here.
            await redrive(connection, access.clock.now())
    return lost, done


def _report(lost: Lost, done: Repaired | None, seconds: float) -> dict[str, Any]:
    missing = lost.funds + lost.credits
    return {
        "holds": not missing if done is None else not done.not_made_count,
        "envelopes": lost.envelopes,
        "lost_creates": lost.funds,
        "lost_creates_fen": lost.funds_fen,
        "lost_credits": lost.credits,
        "lost_credits_fen": lost.credits_fen,
        "repaired": done is not None,
        "creates": done.funded if done else 0,
        "credits": done.paid if done else 0,
        "not_made": [one._asdict() | {"envelope_id": str(one.envelope_id)} for one in done.not_made] if done else [],
        "not_made_count": done.not_made_count if done else 0,
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
    elif not report["holds"]:
        say("`recover wallet --yes` makes them good; deposits first")
    for one in report["not_made"][:_SHOWN]:
        what = f"{one['what']} of {one['envelope_id']}, {yuan(one['fen'])} yuan of {one['user']}"
        say(f"not made good: {what}: {one['why']}")
    if (more := report["not_made_count"] - min(_SHOWN, len(report["not_made"]))) > 0:
        say(f"and {more:,} more")
    say(f"{report['seconds']} s")
