"""Whether each database of the installation, wherever it is, takes our logins, is the one of before, has our schema."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import asyncpg

from doctor.finding import Finding, Level
from doctor.place import Place
from errors import HongbaoError, Refused, Unavailable
from installation import inventory
from installation.access import Access
from runtime import postgres
from schema.migrate import Difference, Kind, compare
from schema.roles import AUDIT, OWNER, roles_of

WALLET = "wallet"
BELONGS_TO = "SELECT name FROM belongs_to"
_IDENTITY = "SELECT system_identifier::text FROM pg_control_system()"


class Database(NamedTuple):
    """What one server answered: why roles cannot log in, its identity, whose it is, its schema.

    "" and None where it did not say.
    """

    name: str
    refused: dict[str, str]
    identity: str
    expected: str
    belongs_to: str
    schema: Difference | None


async def databases(place: Place) -> list[Finding]:
    """Log in to each server as each of its roles; one that does not answer is left to `parts`."""
    if place.access is None:
        return []
    known = inventory.load(place.folder.inventory).clusters
    names = place.access.servers()
    asked = (_ask(place.access, name, known[name].system_identifier) for name in names)
    answered = [one for one in await asyncio.gather(*asked) if one is not None]
    found = [finding for one in answered for finding in judge(one)]
    if answered and not found:
        together = ", ".join(one.name for one in answered)
        what = f"every role logs in at {together}; the schema is this release's"
        found.append(Finding("databases", Level.OK, together, what))
    return found


async def _ask(access: Access, name: str, expected: str) -> Database | None:
    refused: dict[str, str] = {}
    identity, belongs_to, schema = "", "", None
    for role in roles_of("wallet" if name == WALLET else "set"):
        if role == "postgres":
            continue  # the superuser is the runner's, and may stay on its host
        try:
            async with postgres.connected(access.dsn(name, role)) as connection:
                if role == AUDIT:
                    identity = await connection.fetchval(_IDENTITY)
                    if await connection.fetchval("SELECT to_regclass('public.belongs_to')") is not None:
                        belongs_to = await connection.fetchval(BELONGS_TO) or ""
                if role == OWNER:
                    schema = await compare(connection, Kind.WALLET if name == WALLET else Kind.SET)
        except (asyncpg.PostgresError, Refused, postgres.LoginRefused) as error:
            refused[role] = str(getattr(error, "detail", None) or error)
        except Unavailable:
            return None
        except HongbaoError as error:
            refused[role] = str(getattr(error, "detail", None) or error)
    return Database(name, refused, identity, expected, belongs_to, schema)


def judge(one: Database) -> Iterator[Finding]:
    """Say what is wrong with a database."""
    for role, why in one.refused.items():
        what = f"{one.name} refuses the role {role}: {why}."
        do = "Compare secrets.json, or the DSN in installation.toml, with the password of the role there."
        yield Finding("databases", Level.WRONG, one.name, what, do)
    if one.identity and one.expected and one.identity != one.expected:
        what = f"{one.name} is another cluster ({one.identity}) than the one of this installation ({one.expected})."
        do = "See where its address leads; a cluster restored from a backup keeps its identity."
        yield Finding("databases", Level.WRONG, one.name, what, do)
    if one.belongs_to and one.belongs_to != one.name:
        what = f"The database at the address of {one.name} is that of {one.belongs_to}."
        do = f"Correct the DSNs of clusters.{one.name} in the installation file; no process starts on them."
        yield Finding("databases", Level.WRONG, one.name, what, do)
    if one.schema is None:
        return
    if one.schema.changed:
        what = f"The schema of {one.name} was made from another {one.schema.changed[0]}.sql than this release has."
        yield Finding(
            "databases", Level.WRONG, one.name, what, "Bring this release's own file back: it may not change."
        )
    if one.schema.missing:
        what = f"{one.name} lacks {', '.join(one.schema.missing)} of this release's schema."
        yield Finding("databases", Level.WRONG, one.name, what, "./run migrate applies them.")
    if one.schema.beyond:
        what = f"{one.name} has {', '.join(one.schema.beyond)} of a newer release, which this one works on."
        yield Finding("databases", Level.NOTE, one.name, what, "Nothing while an upgrade is under way.")
