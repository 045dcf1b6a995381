"""How an operator's command changes the switches: what anybody has decided anywhere is kept, also in a bad hour.

The wallet's table decides; while it is away, the first SET that answers. Each of these tables gives out versions of
its own (`_above`), so one version has one content, as long as the files of those who change switches name the same
SETs: a table's place among them is its remainder. Where they do not, the next change mends it. Two operators who reach
different SETs do not see each other's: the next change merges whatever it finds (`switches.decisions`).
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from errors import Unavailable
from published.databases import WALLET, Databases
from published.documents import SWITCHES, Document
from runtime import logs
from switches import file as switch_file
from switches.decisions import decide, on
from switches.file import Published
from switches.switch import Switch

TRIES: Final = 5
"""Others who change the switches come between that often, then it is given up."""
STEP: Final = 1_000
"""From one version of a table to its next: each has a remainder of its own, the wallet's is 0. A version is less than
2^31, which is enough for two million changes."""

_log = logs.get("published")


class Switching:
    """One change of the switches. `path` is this host's file of them."""

    def __init__(self, databases: Databases, path: Path) -> None:
        self._databases = databases
        self._path = path
        self.behind: tuple[str, ...] = ()
        """The databases that have not taken it: they did not answer, or others kept changing them."""

    async def run(self, how: Callable[[list[Switch]], Sequence[Switch]], now: datetime) -> Document:
        """Publish `how(the switches that are on)` wherever it can be, and return it.

        `how` may be called again as long as nobody has taken its result. If no database answers, the version is the one
        there was, and this host's file alone can have it. Raises Unavailable `changed_meanwhile`, what `how` raises.
        """
        mine: Published | None = None
        for _ in range(TRIES):
            found, away = await self._look()
            # Once it was taken somewhere it stands: others who came between elsewhere have theirs beside it.
            taken = mine and switch_file.combine([found, mine]).decisions
            new = decide(found.decisions, how, now) if taken is None else taken
            document, decider, away = await self._decide(found.version, new, away)
            if document is None:
                continue
            mine = Published(document.version, merges=True, decisions=new)
            copies = [one for one in self._databases.names if one != decider and one not in away]
            answers = await asyncio.gather(*(self._copy(one, document) for one in copies))
            away |= {one for one, answer in zip(copies, answers, strict=True) if answer is None}
            others = {one for one, answer in zip(copies, answers, strict=True) if answer is False}
            self.behind = tuple(one for one in self._databases.names if one in away | others)
            if not others:
                break
        if mine is None:
            raise Unavailable("changed_meanwhile", f"others changed the switches {TRIES} times meanwhile; try again")
        return Document(SWITCHES, mine.version, switch_file.as_text(mine.decisions, mine.version))

    async def _look(self) -> tuple[Published, set[str]]:
        """Return all that is decided, by all databases that answer and this host's file, and which do not answer."""
        found, away = [switch_file.kept(self._path)], set()
        for database, answer in (await self._databases.read_all({SWITCHES: 0})).items():
            if isinstance(answer, Exception):
                _log.debug("not asked for what is published", database=database, error=str(answer))
                away.add(database)
            else:
                found += [switch_file.parse(one.content, one.version) for one in answer]
        return switch_file.combine(found), away

    async def _decide(
        self, newest: int, new: Sequence[Switch], away: set[str]
    ) -> tuple[Document | None, str, set[str]]:
        """Have the first database that answers take it: returns the document, who took it, and which do not answer.

        None if that database has taken another meanwhile. If none answers, the document has the version there was.
        """
        for remainder, database in enumerate(self._databases.names):
            if database in away:
                continue
            version = _above(newest, remainder)
            document = Document(SWITCHES, version, switch_file.as_text(new, version))
            try:
                return (document if await self._databases.put(database, document) else None), database, away
            except Unavailable as error:
                _log.warning("not published there yet", database=database, document=SWITCHES, error=error.detail)
                away = away | {database}
        return Document(SWITCHES, newest, switch_file.as_text(new, newest)), "", away

    async def _copy(self, database: str, document: Document) -> bool | None:
        """Bring a database up to a document; False if it has another of this or a later version, None if it is away."""
        try:
            if await self._databases.put(database, document):
                return True
            return document in await self._databases.read(database, {SWITCHES: 0})
        except (OSError, TimeoutError, Unavailable) as error:
            _log.warning("not published there yet", database=database, document=SWITCHES, error=str(error))
            return None


def _above(version: int, remainder: int) -> int:
    """Return the lowest version above another that the table with this remainder gives out."""
    return version + 1 + (remainder - version - 1) % STEP


def closed_now(document: Document, now: datetime) -> list[Switch]:
    """Return the switches of a document that are on."""
    return on(switch_file.parse(document.content, document.version).decisions, now)


def not_reached(behind: Sequence[str]) -> str:
    """Say what an operator has to know and do about databases that have not taken a change; "" if all have."""
    if not behind:
        return ""
    names, again = ", ".join(behind), "give the command again once it answers"
    if WALLET in behind:
        return f"not reached: {names}. Gateways on other hosts hear of it from the wallet alone: {again}"
    return (
        f"not reached: {names}. Its servers hear of this from the wallet. But what operators have changed there alone, "
        f"while the wallet was away, is known nowhere else: {again}"
    )
