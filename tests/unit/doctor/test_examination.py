"""All checks together: bounded, complete, without a trace; and the command around them."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from cli.commands import doctor
from cli.table import main
from doctor import examination
from doctor.examination import CHECKS, run_checks
from doctor.finding import Finding, Level, all_is_well
from doctor.place import look
from errors import Unavailable
from machine import debian_programs
from machine.checkout import CHECKOUT
from tests.unit.doctor.test_checks import data, snapshot

__all__ = ["data"]

OF_THE_MACHINE = {"memcached", "disk", "open_files", "ports"}
"""Checks whose outcome is this machine's, whatever the data folder."""
FOUND = [
    Finding("packages", Level.OK, "packages", "15 packages as asked for"),
    Finding("postgres", Level.OK, "Postgres", f"Postgres 18 in /opt/{'x' * 70}/bin"),
    Finding("closed", Level.NOTE, "creates", "creates is closed until 13:00 UTC: [disk] of set-1.", "./run switch off"),
    Finding(
        "disk", Level.SOON, "/data", "Only 300 MB are free at /data, less than the 500 MB to work with.", "Make it"
    ),
]


def test_a_check_that_hangs_is_told_and_left_behind(tmp_path: Path) -> None:
    """The others are reported, and nobody waits for it: neither a blocked thread nor a wait without an end."""
    over = threading.Event()

    async def waits(_: object) -> list[Finding]:
        over.wait()
        return []

    begun = time.monotonic()
    try:
        found = run_checks({"slow": waits, "quick": lambda _: FOUND[:1]}, look(tmp_path), bound_s=0.2)
    finally:
        over.set()
    assert time.monotonic() - begun < 5
    assert [(one.check, one.level) for one in found] == [("slow", Level.WRONG), ("packages", Level.OK)]
    assert "could not be checked within" in found[0].what


HANGS = """
import asyncio
import threading
from pathlib import Path
from doctor.examination import run_checks
from doctor.place import look

dead = threading.Event()
checks = {
    "dead_disk": lambda _: dead.wait(),
    "silent_bucket": lambda _: asyncio.to_thread(dead.wait),
    "silent_dns": lambda _: asyncio.wait_for(asyncio.to_thread(dead.wait), 0.01),
}
print(*(one.check for one in run_checks(checks, look(Path("/nowhere")), bound_s=0.1)))
"""


def test_the_process_ends_although_a_check_never_does() -> None:
    """A thread that waits for a dead disk or a silent bucket keeps nobody at the end of the command.

    Whether it is the check's own, or one to which the check has handed the wait.
    """
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, "-c", HANGS], check=True, capture_output=True, text=True, env=env, timeout=60
    )
    assert (done.stdout, done.stderr) == ("dead_disk silent_bucket silent_dns\n", "")


@pytest.mark.parametrize(
    "error", [Unavailable("away", "set-1 is away"), PermissionError(13, "no"), ZeroDivisionError()]
)
def test_a_check_that_fails_is_a_finding(tmp_path: Path, error: Exception) -> None:
    """With the reason, whatever it is; a fault of ours is told as that."""

    def fails(_: object) -> Iterator[Finding]:
        yield FOUND[0]
        raise error

    (found,) = run_checks({"fails": fails}, look(tmp_path))
    assert (found.level, "could not be checked" in found.what) == (Level.WRONG, True)
    assert ("report it" in found.do) is isinstance(error, ZeroDivisionError)


def test_a_folder_with_nothing_in_it_is_well(tmp_path: Path) -> None:
    """Nothing installed and nothing running is a note, not a fault; no folder is made."""
    place = look(tmp_path / "data")
    found = [*place.troubles, *run_checks({name: CHECKS[name] for name in CHECKS.keys() - OF_THE_MACHINE}, place)]
    assert all_is_well(found), [one for one in found if one.level not in (Level.OK, Level.NOTE)]
    assert [one.what for one in found if one.check == "installation"] == [
        f"Nothing is installed in {tmp_path / 'data'} yet."
    ]
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_and_nothing_is_fetched(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An examination of an installation leaves every file as it was, and calls no package manager."""
    monkeypatch.setattr(debian_programs, "_fetch", lambda *_: pytest.fail("a program was fetched"))
    before = list(snapshot(data))
    found = examination.examine(data)
    assert list(snapshot(data)) == before
    # Its clusters are gone: that is said, and that nothing runs.
    assert {one.check for one in found if one.level is Level.WRONG} == {"clusters"}
    assert "Nothing runs" in next(one.what for one in found if one.check == "parts")


def test_every_finding_that_is_not_well_says_what_to_do(data: Path) -> None:
    """One sentence of what it is, one of what to do."""
    (data / "secrets.json").chmod(0o644)
    bad = [one for one in examination.examine(data) if one.level is not Level.OK]
    assert len(bad) >= 3
    assert [one for one in bad if not one.do or not one.what.endswith(".") or not one.what[0].isupper()] == []


@pytest.mark.parametrize(("found", "status"), [(FOUND[:3], 0), (FOUND, 1)])
def test_the_command_s_words_and_exit_status(
    monkeypatch: pytest.MonkeyPatch, found: list[Finding], status: int
) -> None:
    """Notes are well; what soon fails is not. --json has the keys of the contract."""
    monkeypatch.setattr(doctor, "examine", lambda *_: found)
    answer = CliRunner().invoke(main, ["doctor"])
    assert (answer.exit_code, "[disk]" in answer.stdout) == (status, True)
    told = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
    assert (told.keys(), told["holds"]) == ({"holds", "findings", "seconds"}, status == 0)
    assert {"check", "level", "subject", "what", "do"} == told["findings"][0].keys()


def test_findings_fit_a_narrow_terminal() -> None:
    """No line is longer than 60 characters but a path that is longer by itself, and that is in one piece."""
    output = io.StringIO()
    doctor.show(FOUND, Console(file=output, width=60, force_terminal=True, color_system=None))
    lines = output.getvalue().splitlines()
    assert [one for one in lines if len(one) > 60] == [f"      /opt/{'x' * 70}/bin"]
