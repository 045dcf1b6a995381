"""Reads one SET's log from a cursor on, in the order of commits."""

from typing import NamedTuple

from events.cursor import Cursor
from events.facts import Entry
from events.limits import READ_ENTRIES
from runtime import sql
from runtime.postgres import Connection

_READ = sql.read("events", "read_log")
_SEAL = "SELECT pg_logical_emit_message(true, 'hongbao', 'events')"
"""A commit: once it is replicated, so is all that was read before it."""


class Read(NamedTuple):
    """What one look has found: entries with the cursor behind each, and the cursor from which to read on."""

    entries: list[tuple[Entry, Cursor]]
    next: Cursor


async def read(connection: Connection, cursor: Cursor, limit: int = READ_ENTRIES) -> Read:
    """Return the next entries after `cursor`, `limit` at most; none if nothing is new.

    What is returned is on the disks of a standby, too, where the SET waits for one: a commit that a primary made
    visible after a crash, before its standby had it, may be lost with that primary, and must not be told. No row is
    written.
    """
    upto = cursor.upto if cursor.span_begun else None
    rows = await connection.fetch(_READ, cursor.seen, upto, cursor.after_xid, cursor.after_entry, limit)
    span = rows[0]["upto"]
    entries = []
    for row in rows:
        _, *columns = row.values()
        if columns[0] is not None:
            entry = Entry(*columns)
            entries.append((entry, Cursor(cursor.seen, span, entry.xid, entry.entry_id)))
    if entries:
        await connection.execute(_SEAL)
    if len(entries) < limit:
        return Read(entries, Cursor(cursor.seen, span).whole)
    return Read(entries, entries[-1][1])
