"""After a kill: registers and archives are brought to what was committed last, before anything is looked at.

Two SETs name the same archive once a database has moved with its archived days. A line of the operation log in one of
them, written in the transaction that replaced the manifest there, says what the other is to name.
"""

from collections.abc import Mapping
from datetime import date

import msgspec

from archive.known import Known, known_of
from archive.store import settle
from archive.threads import run_blocking
from runtime import sql
from users.journal import Operator
from users.sessions import Sessions

_ARCHIVES = sql.read("users", "archives")
_REPLACED = sql.read("users", "replaced")
_MANIFEST = "SELECT replace_manifest($1, $2, $3, $4, $5, $6)"

Replaced = Mapping[tuple[date, int, str], str]
"""By day, database and digest of a manifest, the digest of the one that took its place."""


async def carry_over(sessions: Sessions, by: Operator) -> None:
    """Have every register name the manifests that took the place of those it names, and put the archives in order.

    Idempotent. Raises Refused `archive_not_written`.
    """
    replaced: dict[tuple[date, int, str], str] = {}
    for connection in sessions.sets.values():
        for row in await connection.fetch(_REPLACED):
            proof = msgspec.json.decode(row["proof"])
            replaced[row["day"], row["xx"], proof["before"]] = proof["after"]
    for connection in sessions.sets.values():
        for row in await connection.fetch(_ARCHIVES):
            day, xx, named = row["day"], row["xx"], row["manifest_sha256"]
            last = _last(replaced, day, xx, named)
            if last != named:
                await connection.execute(_MANIFEST, day, xx, named, last, by.who, by.reason)
            known = await known_here(sessions, xx=xx, day=day)
            await run_blocking(settle, sessions.at.archive, known, xx=xx, day=day, digest=last)


async def known_here(sessions: Sessions, *, xx: int, day: date) -> Known:
    """Return which writings of an archive any SET here has named."""
    found = Known()
    for connection in sessions.sets.values():
        found |= await known_of(connection, xx=xx, day=day)
    return found


def _last(replaced: Replaced, day: date, xx: int, digest: str) -> str:
    seen = {digest}
    while (following := replaced.get((day, xx, digest))) is not None and following not in seen:
        seen.add(following)
        digest = following
    return digest
