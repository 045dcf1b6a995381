"""Whether commits of this SET wait for a standby that is gone.

With synchronous replication a commit is answered once a standby has it. If no standby is left, commits wait, and with
them every request that needs one, also to show what was read from Postgres: clients would hear only that the outcome is
unknown, later and later. So from a bound on the SET is read-only: what is in memory is shown, anything else is refused
at once, and the refusal says that nothing was begun.
"""

import asyncio
from typing import Any

from errors import Unavailable
from runtime import logs, metrics
from schema import standbys
from setnode.limits import STANDBY_MISSING_S
from setnode.shared_session import SharedSession

_LONGEST = """-- longest_wait: how long a commit of ours has waited for a standby. Index, lock: none.
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
WHERE usename = current_user AND wait_event = 'SyncRep'"""

_log = logs.get("setnode")
_missing = metrics.gauge("hongbao_standby_missing", "1 while commits wait for a standby and writes are refused")


class StandbyWatch:
    """Looks once a second; `missing` says whether a commit has waited for STANDBY_MISSING_S.

    A commit that waits stays in Postgres' list until it has its standby, also after its caller has given up. So once
    none waits any more, a standby is back; or somebody has cancelled them: then the next commits wait, and are found.
    """

    def __init__(self, session: SharedSession) -> None:
        self._session = session
        self._now = asyncio.get_running_loop().time
        self._answered_at = self._now()
        self.missing = False

    async def look(self) -> None:
        """Ask Postgres; raises Unavailable if it does not answer: then that is what requests hear."""
        try:
            longest_s = await self._session.run(self._longest)
        except Exception:
            self._note(missing=False)
            raise
        self._answered_at = self._now()
        missing = longest_s >= STANDBY_MISSING_S
        if missing != self.missing:
            if missing:
                _log.error("no standby confirms commits: this SET is read-only", waited_s=round(longest_s, 1))
            else:
                _log.info("a standby confirms commits again")
        self._note(missing=missing)

    async def count(self) -> None:
        """Show how many standbys there are; raises Unavailable. On this session, whose silence is looked for."""
        await self._session.run(standbys.publish)

    @property
    def silent_s(self) -> float:
        """For how long Postgres has not answered a look, between two of them as well; s."""
        return self._now() - self._answered_at

    async def _longest(self, connection: Any) -> float:
        longest_s: float = await connection.fetchval(_LONGEST)
        return longest_s

    def _note(self, *, missing: bool) -> None:
        self.missing = missing
        _missing.set(missing)

    def check(self) -> None:
        """Raise Unavailable `standby_missing` if what needs a commit would wait for nothing."""
        if self.missing:
            raise Unavailable(
                "standby_missing",
                "the database has lost its standby, and confirms nothing until it has one; try again later",
                retry_after_s=5.0,
            )
