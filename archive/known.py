"""Which writings of an archive are ours: those that the register or the operation log of a SET here has named.

An archive place may be shared by mistake: staging made from production, a rehearsal of a restore. Then what stands
there may be the only copy of a day that somebody else has dropped. So nothing is replaced or removed that is not known
here.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date

from archive.register import NAMED
from runtime.postgres import Connection

_LOGGED = """
SELECT DISTINCT day, xx, found.digests[1] AS digest FROM operation_log,
    regexp_matches(proof, '"(?:manifest|before|after)" *: *"([0-9a-f]{64})"', 'g') AS found (digests)
WHERE day IS NOT NULL AND xx IS NOT NULL AND ($1::date IS NULL OR day = $1) AND ($2::smallint IS NULL OR xx = $2)
"""
"""Scans operation_log, which has some lines for each day and database. Lock: none."""
_ANNOUNCE = """
INSERT INTO operation_log (who, what, day, xx, reason, proof)
VALUES ('archive', 'publishing', $1, $2, 'said before it is done: a kill leaves no archive that is unknown here',
    json_build_object('manifest', $3::text)::text)
"""


@dataclass(frozen=True)
class Known:
    """Digests of manifests. `named` says whether a register here names one now: then we have published there before."""

    digests: frozenset[str] = frozenset()
    named: bool = False

    def __contains__(self, digest: str) -> bool:
        """Say whether a manifest with this digest was written by this installation."""
        return digest in self.digests

    def __or__(self, other: "Known") -> "Known":
        """Return what is known by either."""
        return Known(self.digests | other.digests, self.named or other.named)


async def known_of(connection: Connection, *, xx: int, day: date) -> Known:
    """Return what this SET knows of the archives of a day and database."""
    logged = {row["digest"] for row in await connection.fetch(_LOGGED, day, xx)}
    named = await connection.fetchval(NAMED, day, xx)
    return Known(frozenset(logged | ({named} if named else set())), named is not None)


async def all_known(connection: Connection) -> dict[tuple[date, int], frozenset[str]]:
    """Return the digests that this SET's operation log has, by day and database."""
    found: dict[tuple[date, int], set[str]] = defaultdict(set)
    for row in await connection.fetch(_LOGGED, None, None):
        found[row["day"], row["xx"]].add(row["digest"])
    return {key: frozenset(digests) for key, digests in found.items()}


async def announce(connection: Connection, *, xx: int, day: date, digest: str) -> None:
    """Log that an archive is about to be published, durable on return. Call it as the owner, outside a transaction."""
    await connection.execute(_ANNOUNCE, day, xx, digest)
