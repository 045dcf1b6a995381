"""`hongbao jobs`: commands that are jobs note how they ended, and only what is wrong is said."""

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from cli.table import main
from doctor.finding import Level
from doctor.jobs import job_runs, judge
from doctor.place import look
from installation.finding import find
from schema import jobs
from schema.jobs import Job, JobRun
from tests.integration.gateway.fixtures import RealStack


async def _called(stack: RealStack, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, [*words, "--data", str(stack.data)])


async def _jobs(stack: RealStack) -> dict[str, dict[str, Any]]:
    told = await _called(stack, "jobs", "--json")
    found = json.loads(told.stdout)
    assert (told.exit_code == 0) is found["holds"]
    return {one["job"]: one for one in found["jobs"]}


async def test_commands_note_how_they_ended(stack: RealStack, tmp_path: Path) -> None:
    """Whole ones note it, also that they failed; one of a single SET notes nothing; a forgotten one is gone."""
    assert (await _called(stack, "audit")).exit_code == 0
    audited = (await _jobs(stack))["audit"]
    assert (audited["failed"], audited["missed"], audited["command"]) == (False, False, "hongbao audit")
    assert audited["age_s"] < 300
    assert (await _called(stack, "backup", "list", "set-1", "--folder", str(tmp_path))).exit_code == 1
    assert "backup-check" not in await _jobs(stack)
    assert (await _called(stack, "backup", "list", "--folder", str(tmp_path))).exit_code == 1
    never = (await _jobs(stack))["backup-check"]
    assert (never["failed"], never["succeeded_at"]) == (True, None)
    assert "no copy of" in never["failure"]
    await jobs.note(find(stack.data).wallet_dsn(), Job.BACKUP_CHECK, "the newest copy of set-1 does not lead up to now")
    told = await _called(stack, "jobs")
    assert (told.exit_code, "backup-check has failed just now: the newest copy of set-1" in told.stdout) == (1, True)
    (found,) = [one for one in await job_runs(look(stack.data)) if one.subject == "backup-check"]
    assert (found.level, "hongbao backup list" in found.do) == (Level.WRONG, True)
    await _called(stack, "jobs", "--forget", "backup-check")  # its exit status is about all jobs of the shared stack
    assert "backup-check" not in await _jobs(stack)
    assert "no job 'backup-check' is known" in (await _called(stack, "jobs", "--forget", "backup-check")).output


def test_what_the_doctor_says_of_jobs() -> None:
    """A failed one is wrong; a missed one will be missed more, but for a stack without timers."""
    good = JobRun(job="audit", succeeded_at=None, failed_at=None, age_s=60.0, failed=False, failure="")
    old = JobRun(job="backup", succeeded_at=None, failed_at=None, age_s=200_000.0, failed=False, failure="")
    bad = JobRun(job="retention", succeeded_at=None, failed_at=None, age_s=60.0, failed=True, failure="no room.")
    assert [one.level for one in judge([good], runner=False)] == [Level.OK]
    said = {one.subject: one for one in judge([good, old, bad], runner=False)}
    assert {name: one.level for name, one in said.items()} == {"backup": Level.SOON, "retention": Level.WRONG}
    assert said["backup"].what == "The job backup has not succeeded for 2 days 7 hours."
    assert said["retention"].what == "The job retention has failed: no room."
    assert [one.level for one in judge([old], runner=True)] == [Level.NOTE]
