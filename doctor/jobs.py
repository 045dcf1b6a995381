"""Jobs that have failed, or do not run any more: audit, backups, checks."""

from collections.abc import Iterator, Sequence

from doctor.finding import Finding, Level
from doctor.place import Place
from errors import Unavailable
from runtime import postgres
from runtime.wording import duration
from schema import jobs
from schema.jobs import JOBS, Job, JobRun


async def job_runs(place: Place) -> list[Finding]:
    """Ask the wallet's database; one that does not answer is left to `parts`."""
    if place.access is None:
        return []
    try:
        async with postgres.connected(place.access.wallet_dsn()) as connection:
            found = await jobs.read(connection)
    except Unavailable:
        return []
    return list(judge(found, runner=place.access.runner))


def judge(runs: Sequence[JobRun], *, runner: bool) -> Iterator[Finding]:
    """Say what is wrong with each job; `runner`: `./run` started all of it, and has no timers that could be off."""
    wrong = [one for one in runs if one.failed or one.missed]
    for one in wrong:
        command = JOBS[Job(one.job)].command if one.job in JOBS else one.job
        if one.failed:
            what = f"The job {one.job} has failed: {one.failure.rstrip('.')}."
            yield Finding("jobs", Level.WRONG, one.job, what, f"Mend that, then call {command} again.")
        else:
            ago = f"for {duration(int(one.age_s) // 3600 * 3600)}"
            level = Level.NOTE if runner else Level.SOON
            do = f"Call {command}; see why its timer does not. `hongbao jobs --forget {one.job}` if it is not to run."
            yield Finding("jobs", level, one.job, f"The job {one.job} has not succeeded {ago}.", do)
    if runs and not wrong:
        names = ", ".join(one.job for one in runs)
        yield Finding("jobs", Level.OK, names, f"no job has failed or is missed: {names}")
