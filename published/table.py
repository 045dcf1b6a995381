"""The rows of the table `published`, in the wallet's database and in those of the SETs."""

from collections.abc import Mapping
from typing import Final

from published.documents import Document
from runtime.postgres import Connection

CHANNEL: Final = "hongbao_topology"
"""Notified with each row: the servers of a SET read it then."""
KEPT: Final = 1_000
"""Versions of a document that a table keeps: a year of three changes a day."""

_NEWER = """-- newer_published: the newest version of each document above the one known. Index: published_version.
SELECT known.name, newest.version, newest.content
FROM unnest($1::varchar[], $2::integer[]) AS known (name, version), LATERAL (
    SELECT version, content FROM published
    WHERE published.name = known.name AND published.version > known.version ORDER BY version DESC LIMIT 1
) AS newest"""
_PUT = """-- put_published: a version above all others, once. Index, lock: published_version.
INSERT INTO published (name, version, content, who) SELECT $1::varchar, $2::integer, $3, $4
WHERE NOT EXISTS (SELECT FROM published WHERE name = $1::varchar AND version >= $2::integer)
ON CONFLICT DO NOTHING RETURNING version"""

_TRIM = """-- trim_published: the KEPT newest versions of a document stay. Index: published_version.
DELETE FROM published WHERE name = $1 AND version <= (
    SELECT version FROM published WHERE name = $1 ORDER BY version DESC OFFSET $2 LIMIT 1)"""


async def newer(connection: Connection, known: Mapping[str, int]) -> list[Document]:
    """Return the newest of each document named in `known` that is above the version there (0: any)."""
    rows = await connection.fetch(_NEWER, list(known), list(known.values()))
    return [Document(*row) for row in rows]


async def put(connection: Connection, document: Document, who: str) -> bool:
    """Insert a version and notify; durable if True. False: that version, or a later one, is there already.

    One that another transaction has inserted and not committed is waited for.
    """
    async with connection.transaction():
        if await connection.fetchval(_PUT, *document, who[:64]) is None:
            return False
        await connection.execute(_TRIM, document.name, KEPT)
        await connection.execute("SELECT pg_notify($1, '')", CHANNEL)
    return True
