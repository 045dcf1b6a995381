"""Where a name stands: every day's tables of every SET, and every archive that a register names."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from archive import store
from archive.of_user import Counts, UserInArchive
from archive.states import State
from archive.threads import run_blocking
from errors import Refused
from runtime import sql
from sharding.slots import database_name
from users.progress import Progress
from users.sessions import Sessions
from users.tables import UserInTables

_DAY_TABLES = sql.read("users", "day_tables")
_ARCHIVES = sql.read("users", "archives")
_PLACES = "SELECT count(*) FROM day_place WHERE user_id = $1 OR sender = $1"
_SET_APART = "SELECT count(*) FROM fund_set_apart WHERE sender = $1"


@dataclass(frozen=True)
class ArchiveAt:
    """An archive: its day and database, its manifest's digest, and the SETs whose registers name it, with the state."""

    day: date
    xx: int
    digest: str
    holders: dict[str, State]

    def __str__(self) -> str:
        """Name it as an operator would."""
        return f"the archive of {database_name(self.xx)} of {self.day}"


@dataclass
class Found:
    """Where a name stands: by SET and day, by archive; places of daily limits; funds set apart, by SET."""

    tables: dict[tuple[str, date], Counts] = field(default_factory=dict)
    archives: list[tuple[ArchiveAt, Counts]] = field(default_factory=list)
    places: int = 0
    set_apart: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows have the name."""
        counts = [*self.tables.values(), *(one for _, one in self.archives)]
        return sum(map(sum, counts)) + self.places + sum(self.set_apart.values())


async def survey(sessions: Sessions, user: str, progress: Progress) -> Found:
    """Look through everything; reads all rows of hot days, and the columns of names of all archives.

    Raises Refused `archive_missing`, `archive_forged`, `archive_corrupt`: what cannot be read cannot be promised.
    """
    found = Found(places=await sessions.wallet.fetchval(_PLACES, user))
    for name, connection in sessions.sets.items():
        for day in await days_of(sessions, name):
            progress.at(f"still looking: {name}, the tables of {day}")
            async with connection.transaction(readonly=True):
                counts = await UserInTables(connection, day, user).count()
            if any(counts):
                found.tables[name, day] = counts
        if apart := await connection.fetchval(_SET_APART, user):
            found.set_apart[name] = apart
    for one in await archives_of(sessions):
        progress.at(f"still looking: {one}")
        opened = await run_blocking(store.opened, sessions.at.archive, xx=one.xx, day=one.day, digest=one.digest)
        with UserInArchive(opened.where, user) as archived:
            counts = await archived.count()
        if any(counts):
            found.archives.append((one, counts))
    return found


async def days_of(sessions: Sessions, name: str) -> Sequence[date]:
    """Return the business days that have tables in a SET, hot or detached, in order."""
    rows = await sessions.sets[name].fetch(_DAY_TABLES)
    return [datetime.strptime(row["digits"], "%Y%m%d").date() for row in rows]  # noqa: DTZ007 - a date alone


async def archives_of(sessions: Sessions) -> list[ArchiveAt]:
    """Return the archives that registers name, with manifests that were read and are theirs, in order of day.

    A SET from which a database has moved may name an older manifest: it is no holder. Raises Refused as `survey`.
    """
    named: dict[tuple[date, int], dict[str, tuple[State, str]]] = defaultdict(dict)
    for name, connection in sessions.sets.items():
        for row in await connection.fetch(_ARCHIVES):
            named[row["day"], row["xx"]][name] = State(row["state"]), row["manifest_sha256"]
    found = []
    for (day, xx), said in sorted(named.items()):
        digest = await _standing(sessions, day, xx, {its for _, its in said.values()})
        found.append(ArchiveAt(day, xx, digest, {name: state for name, (state, its) in said.items() if its == digest}))
    return found


async def _standing(sessions: Sessions, day: date, xx: int, named: Collection[str]) -> str:
    """Return which of the digests that registers name is that of an archive that is there; raises as `survey`."""
    why: Refused | None = None
    for digest in sorted(named):
        try:
            await run_blocking(store.opened, sessions.at.archive, xx=xx, day=day, digest=digest)
        except Refused as refused:
            why = refused
        else:
            return digest
    raise why or Refused("archive_missing", f"no register names an archive of {day}")
