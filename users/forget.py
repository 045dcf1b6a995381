"""`forget`: a user's name goes, the money stays. Looks first, changes then, looks again; resumable at every point."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from archive.states import State
from days import crash_points
from envelope.pseudonyms import is_pseudonym, new_pseudonym
from errors import Refused
from runtime import sql
from users import journal, steps
from users.headers import Names
from users.installed import Installed
from users.journal import Operator
from users.limits import CACHES_S, LEDGER_HELD_S, PASSES, STATEMENT_S
from users.obstacles import obstacles, pending, refuse
from users.progress import Progress
from users.registers import carry_over
from users.sessions import Sessions, opened
from users.survey import Found, survey

_WORDS = sql.read("users", "words")
_ACCOUNT = "SELECT balance_fen FROM account WHERE name = 'user:' || $1"
_PLACES = """
UPDATE day_place SET user_id = CASE user_id WHEN $1 THEN $2 ELSE user_id END,
    sender = CASE sender WHEN $1 THEN $2 ELSE sender END
WHERE user_id = $1 OR sender = $1
"""
_SET_APART = "UPDATE fund_set_apart SET sender = $2 WHERE sender = $1"


@dataclass
class Outlook:
    """What would be changed: where the name stands, the balance in fen (None: no account), what forbids it.

    `resumes`: it was begun before and not finished.
    """

    found: Found
    balance_fen: int | None
    in_the_way: list[str]
    resumes: bool


@dataclass
class Forgotten:
    """What was done: the pseudonym, rows changed, and where words of operators still have the name in them.

    `of_another`: rows under the name that belong to an account of the same name that began meanwhile.
    """

    pseudonym: str
    changed: int = 0
    of_another: int = 0
    words: list[str] = field(default_factory=list)


async def check(at: Installed, user: str, *, leave_balance: bool = False, progress: Progress | None = None) -> Outlook:
    """Say what `forget` would do; nothing is changed. Raises Refused as `forget`; Unavailable."""
    _check_name(user)
    async with opened(at) as sessions:
        return await _outlook(sessions, user, progress or Progress(), leave_balance=leave_balance)


async def forget(
    at: Installed,
    user: str,
    by: Operator,
    today: date,
    *,
    leave_balance: bool = False,
    confirm: Callable[[Outlook], None] = lambda _: None,
    progress: Progress | None = None,
) -> Forgotten:
    """Replace the user's ID by a pseudonym wherever it stands; done and durable on return, and no server shows it.

    `confirm` is called with what will be changed, before anything is; it raises to prevent it. Raises as the package
    says. Idempotent: run again after a kill, it finishes.
    """
    _check_name(user)
    by.check(user)
    progress = progress or Progress()
    async with opened(at) as sessions:
        await carry_over(sessions, by)
        outlook = await _outlook(sessions, user, progress, leave_balance=leave_balance)
        refuse(outlook.in_the_way)
        confirm(outlook)
        names = await journal.begun(sessions.wallet, user)
        if names is None:
            names = await _begin(sessions, user, by, outlook, leave_balance=leave_balance)
        crash_points.reach("begun")
        done = Forgotten(names.after)
        found = outlook.found
        for _ in range(PASSES):
            changed = await _pass(sessions, names, by, found, progress)
            done.changed += changed
            found = await survey(sessions, user, progress)
            if not found.rows or not changed:
                break
        done.of_another = found.rows
        if found.rows and not await _belongs_to_another(sessions, names, found):
            raise Refused(
                "forget_unfinished",
                f"{found.rows} rows have the name all the same, written while it was replaced; run the command again",
            )
        done.words = await _words(sessions, user)
        crash_points.reach("finish?")
        await journal.finish(sessions.wallet, names, by, at.name_mac(user), today)
    # Servers were told with each step; after this long each that reaches its Postgres has dropped what it remembered.
    await asyncio.sleep(CACHES_S)
    return done


def _check_name(user: str) -> None:
    if not user or is_pseudonym(user):
        raise Refused("unknown_user", f"{user[:50]!r} is no user's ID; nothing was changed")


async def _outlook(sessions: Sessions, user: str, progress: Progress, *, leave_balance: bool) -> Outlook:
    resumes = await journal.begun(sessions.wallet, user) is not None
    balance: int | None = await sessions.wallet.fetchval(_ACCOUNT, user)
    found = await survey(sessions, user, progress)
    if balance is None and not found.rows and not resumes:
        before = await journal.forgotten_on(sessions.wallet, sessions.at.name_mac(user))
        if before is not None:
            raise Refused("already_forgotten", f"{user} was forgotten on {before}; nothing is left of the name")
        raise Refused(
            "unknown_user", f"there is no user {user}: no account and no row has the name; nothing was changed"
        )
    # What has begun is finished: its account was found ready, and has another name now.
    in_the_way = [] if resumes else await obstacles(sessions, user, leave_balance=leave_balance)
    return Outlook(found, balance, [*in_the_way, *await _damage(sessions, user, found, progress)], resumes)


async def _damage(sessions: Sessions, user: str, found: Found, progress: Progress) -> list[str]:
    """Return a sentence for each place whose headers or files are not what they were: they are not written anew."""
    account = await sessions.wallet.fetchval("SELECT account_id FROM account WHERE name = 'user:' || $1", user)
    names = await journal.begun(sessions.wallet, user) or Names(user, new_pseudonym(), account)
    damaged = []
    for name, day in found.tables:
        progress.at(f"reading {day} of {name}")
        damaged += await steps.damage_of_tables(sessions, names, name, day)
    for one, _ in found.archives:
        progress.at(f"reading {one}")
        damaged += await steps.damage_of_archive(sessions, names, one)
    return damaged


async def _begin(sessions: Sessions, user: str, by: Operator, outlook: Outlook, *, leave_balance: bool) -> Names:
    """Rename the account, in the one transaction that proves that none of its money is on its way."""
    pseudonym = new_pseudonym()
    async with sessions.wallet.transaction():
        # Until this ends nothing is posted: a share that is won now is paid to an account that begins under the name.
        # A command that is stopped here, or whose host is gone, must not keep all money from moving.
        await sessions.wallet.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{LEDGER_HELD_S}s'")
        await sessions.wallet.execute("SELECT hold_ledger()")
        async with asyncio.timeout(STATEMENT_S):
            refuse(await pending(sessions, user))
        why = await journal.begin(
            sessions.wallet, user, pseudonym, by,
            leave_balance=leave_balance, without_account=outlook.balance_fen is None,
        )  # fmt: skip
        if why is not None:
            refuse([f"the user acts just now ({why} has changed since it was looked at): stop their tokens, try again"])
    names = await journal.begun(sessions.wallet, user)
    assert names is not None  # noqa: S101 - it was written above
    return names


async def _pass(sessions: Sessions, names: Names, by: Operator, found: Found, progress: Progress) -> int:
    """Take every step once; returns how many rows changed."""
    changed = 0
    if found.places:
        changed += _count(await sessions.wallet.execute(_PLACES, names.before, names.after))
        await journal.note(sessions.wallet, names, by, "places", found.places)
    for name in found.set_apart:
        changed += _count(await sessions.sets[name].execute(_SET_APART, names.before, names.after))
    archives = [one for one, _ in found.archives]
    for name, day in found.tables:
        progress.at(f"changing {day} of {name}")
        # A day that stands in tables and in an archive, too: both in one step, so that they agree at any instant.
        both = [one for one in archives if one.day == day and one.holders.get(name, State.DROPPED) is not State.DROPPED]
        archives = [one for one in archives if one not in both]
        changed += await steps.rename(sessions, names, by, both, (name, day))
    for one in archives:
        progress.at(f"writing {one} anew")
        changed += await steps.rename(sessions, names, by, [one])
    return changed


async def _belongs_to_another(sessions: Sessions, names: Names, found: Found) -> bool:
    """Say whether all that is found under the name belongs to an account that began under it meanwhile."""
    guests = any(one.guests for one in (*found.tables.values(), *(counts for _, counts in found.archives)))
    account = await sessions.wallet.fetchval(_ACCOUNT, names.before)
    return account is not None and not guests


async def _words(sessions: Sessions, user: str) -> list[str]:
    """Return the lines of operators and parts in which the name stands as a word: their words are not changed."""
    return [
        f"{name}: {row['place']} {row['entry']}"
        for name, connection in sessions.sets.items()
        for row in await connection.fetch(_WORDS, user)
        if journal.stands_in(user, row["text"])
    ]


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])
