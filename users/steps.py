"""One step of forgetting a user: a day of a SET's tables with its archives, or an archive of a dropped day.

1. What changes is read, and every header checked. Nothing is written.
2. Archives are written anew beside the old ones, and compared with them.
3. The wallet gets the hashes of the new headers (one transaction).
4. Rows, and the digests that the register names, are changed; the new archives take their place; what servers remember
   is invalidated (one transaction in each SET concerned, in nearly all cases one).
5. The old archives are removed, and a line is written to the journal.

After a kill before 4 is committed, the rows have the old name and the same step is taken again: the new hashes of 3 are
recognized, and `registers` puts an archive back that had taken its place too soon. After it only 5 is
left.
"""

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from archive import store
from archive.export import archive_lock
from archive.known import Known, announce
from archive.manifest import Manifest
from archive.of_user import UserInArchive
from archive.rename import Renaming, write_renamed
from archive.states import State
from archive.threads import run_blocking
from archive.verify import verified_archive, verify_database
from days import crash_points
from errors import Refused
from runtime import sql
from runtime.postgres import Connection
from setnode.commit.invalidation import payload
from users import journal
from users.headers import Headers, Names, own_claims, write_anew
from users.journal import Operator
from users.registers import known_here
from users.sessions import Sessions
from users.survey import ArchiveAt
from users.tables import UserInTables
from wire.orders import payout_order

_FORGET = "SELECT forget_name($1, $2, $3, $4, $5, $6, $7, $8)"
_HASHES = "SELECT replace_header_hashes($1, $2, $3)"
_MANIFEST = "SELECT replace_manifest($1, $2, $3, $4, $5, $6)"
_SET_LOG = "INSERT INTO operation_log (who, what, day, reason, proof) VALUES ($1, 'forget', $2, $3, $4)"
_NOTE_WRITES = sql.read("setnode", "note_foreign_writes")


@dataclass
class Changes:
    """What changes in one place: headers, claims (envelope, seq), and the envelopes in which the user is a guest."""

    headers: Headers
    claims: list[tuple[int, int]]
    guests: list[int]

    @property
    def envelopes(self) -> set[int]:
        """All envelopes of which something changes."""
        return {*self.headers.seals, *(one for one, _ in self.claims), *self.guests}

    @property
    def rows(self) -> int:
        """How many rows change."""
        return len(self.headers.seals) + len(self.claims) + len(self.guests)


@dataclass(frozen=True)
class Staged:
    """An archive that was written anew, and is not in its place yet."""

    at: ArchiveAt
    new: Path
    manifest: Manifest
    changes: Changes
    known: Known


async def changes_of(sessions: Sessions, source: UserInTables | UserInArchive, names: Names) -> Changes:
    """Read what changes in one place. Raises Refused `header_differs`."""
    guests = [row async for row in source.guests()]
    invited = [row["envelope_id"] for row in guests if row["invited"]]
    rows = [row async for row in source.headers(invited)]
    receivers: dict[int, list[str]] = {}
    if named := [row["envelope_id"] for row in rows if row["named"]]:
        async for row in source.receivers(named):
            receivers.setdefault(row["envelope_id"], []).append(row["user_id"])
    headers = await write_anew(sessions.wallet, rows, receivers, names, sessions.at.seal)
    claims = {
        payout_order(row["envelope_id"], row["seq"]): (row["envelope_id"], row["seq"]) async for row in source.claims()
    }
    return Changes(headers, await own_claims(sessions.wallet, claims, names), [row["envelope_id"] for row in guests])


async def damage_of_tables(sessions: Sessions, names: Names, name: str, day: date) -> list[str]:
    """Return why the rows of a day cannot be changed, or nothing."""
    connection = sessions.sets[name]
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        try:
            await changes_of(sessions, UserInTables(connection, day, names.before), names)
        except Refused as refused:
            return [refused.detail]
    return []


async def damage_of_archive(sessions: Sessions, names: Names, at: ArchiveAt) -> list[str]:
    """Return why an archive cannot be written anew, or nothing; reads all of it."""
    try:
        found = await verified_archive(sessions.at.archive, xx=at.xx, day=at.day, digest=at.digest)
        with UserInArchive(found.where, names.before) as archived:
            await changes_of(sessions, archived, names)
    except Refused as refused:
        return [refused.detail]
    return []


async def rename(
    sessions: Sessions,
    names: Names,
    by: Operator,
    archives: Sequence[ArchiveAt],
    tables: tuple[str, date] | None = None,
) -> int:
    """Take one step; returns how many rows changed. Durable on return, and idempotent.

    `archives` are those of the day whose rows `tables` (SET, day) still has, too; or, without tables, a single one.
    Raises Refused as `changes_of` and `archive.rename`; Unavailable.
    """
    async with AsyncExitStack() as stack:
        every = [await stack.enter_async_context(_staged(sessions, names, one)) for one in archives]
        # Of the others all that has the name is another account's: the same archive again is none to publish.
        staged = [one for one in every if one.changes.rows]
        changes = [one.changes for one in staged]
        if tables is not None:
            connection = sessions.sets[tables[0]]
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                changes.append(await changes_of(sessions, UserInTables(connection, tables[1], names.before), names))
        if not any(one.rows for one in changes):
            return 0
        await _replace_hashes(sessions, changes)
        crash_points.reach("hashed")
        await _write(sessions, names, by, staged, tables, changes)
        crash_points.reach("written")
        for at in archives:
            # While what it replaces is still there.
            await _verify(sessions, at)
        for one in staged:
            archive, digest = sessions.at.archive, one.manifest.digest
            await run_blocking(store.discard_others, archive, one.known, xx=one.at.xx, day=one.at.day, digest=digest)
    what = str(archives[0]) if tables is None else f"{tables[0]} {tables[1]}"
    changed = sum(one.rows for one in changes)
    await journal.note(sessions.wallet, names, by, what, changed)
    return changed


@asynccontextmanager
async def _staged(sessions: Sessions, names: Names, at: ArchiveAt) -> AsyncIterator[Staged]:
    """Write an archive anew for the block, at the end of which what was not published is removed."""
    archive = sessions.at.archive
    holder = sessions.sets[next(iter(at.holders))]
    async with archive_lock(holder, xx=at.xx, day=at.day):
        found = await verified_archive(archive, xx=at.xx, day=at.day, digest=at.digest)
        with UserInArchive(found.where, names.before) as archived:
            changes = await changes_of(sessions, archived, names)
        renaming = Renaming(
            names.before,
            names.after,
            changes.headers.seals,
            frozenset(changes.headers.sent),
            frozenset(envelope_id for envelope_id, _ in changes.claims),
        )
        with store.staging(archive.folder, xx=at.xx, day=at.day) as new:
            manifest = await write_renamed(found, new, renaming)
            known = await known_here(sessions, xx=at.xx, day=at.day)
            await run_blocking(store.check_place, manifest, archive, known)
            for name in at.holders if changes.rows else ():
                await announce(sessions.sets[name], xx=at.xx, day=at.day, digest=manifest.digest)
            yield Staged(at, new, manifest, changes, known)


async def _replace_hashes(sessions: Sessions, changes: Collection[Changes]) -> None:
    hashes = {key: value for one in changes for key, value in one.headers.hashes.items()}
    if hashes:
        before, after = zip(*hashes.values(), strict=True)
        await sessions.wallet.execute(_HASHES, list(hashes), list(before), list(after))


async def _write(
    sessions: Sessions,
    names: Names,
    by: Operator,
    staged: Sequence[Staged],
    tables: tuple[str, date] | None,
    changes: Sequence[Changes],
) -> None:
    """Change rows and register, put the new archives in their place, and commit."""
    concerned = {name for one in staged for name in one.at.holders} | ({tables[0]} if tables else set())
    touched = sorted(set().union(*(one.envelopes for one in changes)))
    async with _together([sessions.sets[name] for name in sorted(concerned)]):
        if tables is not None:
            await _write_rows(sessions.sets[tables[0]], tables[1], names, by, changes[-1])
        for one in staged:
            for name in one.at.holders:
                digests = one.at.digest, one.manifest.digest
                await sessions.sets[name].execute(_MANIFEST, one.at.day, one.at.xx, *digests, by.who, by.reason)
        for name in concerned:
            await sessions.sets[name].execute(_NOTE_WRITES, touched, payload(touched))
        for one in staged:
            await run_blocking(store.publish, one.new, one.manifest, sessions.at.archive, one.known, keep_old=True)
        crash_points.reach("published")


@asynccontextmanager
async def _together(connections: Sequence[Connection]) -> AsyncIterator[None]:
    """Run the block in a transaction on each connection; they are committed one after the other, or none is.

    Several are only those whose registers name the same archive, after a move. After a kill between two of the commits
    `registers.carry_over` does what is left.
    """
    begun = []
    try:
        for connection in connections:
            transaction = connection.transaction()
            await transaction.start()
            begun.append(transaction)
        yield
        while begun:
            await begun.pop(0).commit()
            crash_points.reach("committed")
    except BaseException:
        for transaction in begun:
            with contextlib.suppress(Exception):
                await transaction.rollback()
        raise


async def _write_rows(connection: Connection, day: date, names: Names, by: Operator, changes: Changes) -> None:
    ids = list(changes.headers.seals)
    sent = [one in changes.headers.sent for one in ids]
    claims = [one for one, _ in changes.claims], [seq for _, seq in changes.claims]
    await connection.execute(
        _FORGET, day, names.before, names.after, ids, sent, list(changes.headers.seals.values()), *claims
    )
    await connection.execute(_SET_LOG, by.who, day, by.reason, f'{{"pseudonym": "{names.after}"}}')


async def _verify(sessions: Sessions, at: ArchiveAt) -> None:
    """Prove that a day's tables and its archive, written anew apart from each other, hold the same rows."""
    for name, state in at.holders.items():
        if state is State.VERIFIED:
            await verify_database(sessions.sets[name], *sessions.at.archive, xx=at.xx, day=at.day)
