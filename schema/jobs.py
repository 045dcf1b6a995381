"""Jobs that run now and then, and when each has last succeeded and failed: the table `job_run` of the wallet.

A job that fails is seen where it runs. One that does not run any more, because its timer is off or its host is gone, is
seen only by somebody who knows when it has run before.
"""

import asyncio
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

import asyncpg
import msgspec

from errors import Unavailable
from runtime import postgres
from runtime.postgres import Connection

NOTE_S: Final = 30.0
"""The job has ended: what it has found out waits for this note."""


class Job(StrEnum):
    """The jobs that this release notes; another release may know others."""

    AUDIT = "audit"
    BACKUP = "backup"
    BACKUP_CHECK = "backup-check"
    ARCHIVE_CHECK = "archive-check"
    INSTALLATION_CHECK = "installation-check"
    RETENTION = "retention"


class Known(NamedTuple):
    """A job: the command that it is, and how long after its last success it is missed."""

    command: str
    missed_after: timedelta


_MISSED_DAILY: Final = timedelta(hours=36)
"""A night's turn and half the next day, so that a long run or a short stop of its host is no alarm."""
JOBS: Final = {
    Job.AUDIT: Known("hongbao audit", _MISSED_DAILY),
    Job.BACKUP: Known("hongbao backup take all", _MISSED_DAILY),
    Job.BACKUP_CHECK: Known("hongbao backup list", timedelta(hours=3)),
    Job.ARCHIVE_CHECK: Known("hongbao archive verify", timedelta(days=8)),
    Job.INSTALLATION_CHECK: Known("hongbao installation check", _MISSED_DAILY),
    Job.RETENTION: Known("hongbao retention apply --yes", _MISSED_DAILY),
}
"""What deploy/ runs each hour, night or week; the alarm HongbaoJobMissed has the same bounds."""


class JobRun(msgspec.Struct, frozen=True):
    """`age_s`: seconds since the job has last succeeded; if it never has, since it is known.

    `failed`: whether it has failed since. `failure`: why it failed last, "" if it never did.
    """

    job: str
    succeeded_at: datetime | None
    failed_at: datetime | None
    age_s: float
    failed: bool
    failure: str

    @property
    def missed(self) -> bool:
        """Whether it should have succeeded again by now; of a job that another release knows that is not known."""
        return self.job in JOBS and self.age_s > JOBS[Job(self.job)].missed_after.total_seconds()


READ: Final = """
SELECT job, succeeded_at, failed_at,
    extract(epoch FROM clock_timestamp() - coalesce(succeeded_at, known_since))::float8 AS age_s,
    failed_at IS NOT NULL AND (succeeded_at IS NULL OR failed_at > succeeded_at) AS failed,
    coalesce(failure, '') AS failure
FROM job_run ORDER BY job
"""


async def read(connection: Connection) -> list[JobRun]:
    """Return all jobs that are known; a role of the wallet's database may read them."""
    if await connection.fetchval("SELECT to_regclass('public.job_run')") is None:
        return []  # it was migrated last by a release that noted no jobs
    return [JobRun(**row) for row in await connection.fetch(READ)]


async def note(dsn: str, job: Job, failure: str | None) -> None:
    """Note that a job has succeeded, or why it failed; as the audit's role. Durable on return.

    Raises Unavailable `database_unavailable`, or `not_noted` if the database does not take it within NOTE_S; one of a
    release that notes no jobs does not.
    """
    try:
        async with asyncio.timeout(NOTE_S), postgres.connected(dsn) as connection:
            await connection.execute("SELECT note_job($1, $2)", job.value, failure)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        text = f"the wallet's database does not take it: {error or 'no answer'}"
        raise Unavailable("not_noted", text) from error


async def forget(dsn: str, job: str) -> bool:
    """Have a job not be known any more, as the owner; returns whether it was."""
    async with postgres.connected(dsn) as connection:
        return bool(await connection.fetchval("DELETE FROM job_run WHERE job = $1 RETURNING true", job))
