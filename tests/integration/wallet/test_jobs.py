"""When jobs have last succeeded and failed: noted by the audit's role, read by the wallet, shown as metrics."""

import asyncpg
import pytest

from runtime import metrics as exposition
from runtime import postgres
from schema import jobs, roles
from schema.jobs import JOBS, Job, JobRun
from tests.conftest import Databases
from tests.integration.wallet.fixtures import wallet_database
from wallet import metrics

__all__ = ["wallet_database"]


async def _read(dsn: str) -> dict[str, JobRun]:
    async with postgres.connected(dsn) as connection:
        return {one.job: one for one in await jobs.read(connection)}


async def test_a_job_is_known_by_how_it_ended_last(databases: Databases, wallet_database: str) -> None:
    """The audit is known from the beginning; a failure stands until a success, and why it failed is kept."""
    audit = databases.dsn_as(wallet_database, roles.AUDIT)
    (first,) = (await _read(wallet_database)).values()
    assert (first.job, first.succeeded_at, first.failed) == ("audit", None, False)
    assert 0 <= first.age_s < 86_400
    await jobs.note(audit, Job.BACKUP, None)
    await jobs.note(audit, Job.BACKUP, "the disk is full" + "!" * 1_000)
    failed = (await _read(wallet_database))["backup"]
    assert failed.failed
    assert failed.succeeded_at is not None
    assert failed.failure.startswith("the disk is full")
    await jobs.note(audit, Job.BACKUP, None)
    again = (await _read(wallet_database))["backup"]
    assert not again.failed
    assert again.failure == failed.failure
    assert again.succeeded_at is not None
    assert again.succeeded_at > failed.succeeded_at


@pytest.mark.parametrize("statement", ["DELETE FROM job_run", "UPDATE job_run SET succeeded_at = now()"])
async def test_the_audit_can_only_note(databases: Databases, wallet_database: str, statement: str) -> None:
    """Its role can neither take a failure back nor forget a job."""
    async with postgres.connected(databases.dsn_as(wallet_database, roles.AUDIT)) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)


async def test_a_job_that_is_forgotten_is_missed_no_longer(databases: Databases, wallet_database: str) -> None:
    """Only what is known can be forgotten, and it is known again when it runs again."""
    owner = databases.dsn_as(wallet_database, roles.OWNER)
    assert await jobs.forget(owner, "audit")
    assert not await jobs.forget(owner, "audit")
    assert await _read(wallet_database) == {}
    await jobs.note(databases.dsn_as(wallet_database, roles.AUDIT), Job.AUDIT, "1 violation")
    assert list(await _read(wallet_database)) == ["audit"]


def _run(job: str, age_s: float, *, failed: bool = False) -> JobRun:
    return JobRun(job=job, succeeded_at=None, failed_at=None, age_s=age_s, failed=failed, failure="")


@pytest.mark.parametrize("job", JOBS)
def test_a_job_is_missed_after_its_time(job: Job) -> None:
    """At its bound it is not missed yet, a second later it is; of an unknown job nobody knows."""
    bound = JOBS[job].missed_after.total_seconds()
    assert [_run(job.value, age_s).missed for age_s in (bound, bound + 1)] == [False, True]
    assert not _run("of-a-later-release", 10 * bound).missed


def test_the_wallet_shows_how_jobs_stand() -> None:
    """A gauge for each job that is known, and none of one that was forgotten."""
    metrics.show_jobs([_run("audit", 5.0), _run("backup", 7.5, failed=True)])
    text = exposition.render().decode()
    assert 'hongbao_job_age_seconds{task="backup"} 7.5' in text
    assert 'hongbao_job_failed{task="backup"} 1.0' in text
    assert 'hongbao_job_failed{task="audit"} 0.0' in text
    metrics.show_jobs([_run("audit", 6.0)])
    text = exposition.render().decode()
    assert 'task="backup"' not in text
    assert 'hongbao_job_age_seconds{task="audit"} 6.0' in text
