"""Drill and plan are run where the system runs: with what `./run` installs, and nothing that only benchmarks need."""

import subprocess
import sys

import pytest

_WITHOUT = """
import sys
for name in ("locust", "matplotlib", "redis", "loadtest.baselines"):
    sys.modules[name] = None
import {module}
"""


def imported(module: str) -> subprocess.CompletedProcess[str]:
    """Import it in an interpreter that lacks the packages of the group `bench` and what the wheel leaves out."""
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(module=module)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", ["loadtest.drill.command", "loadtest.plan.command"])
def test_it_needs_nothing_that_only_benchmarks_need(module: str) -> None:
    """Importing drill and plan works where those are missing."""
    done = imported(module)
    assert done.returncode == 0, done.stderr


def test_the_benchmark_says_what_it_lacks() -> None:
    """Where they are missing `bench` is refused with a sentence, which the command shows instead of a traceback."""
    done = imported("loadtest.bench.command")
    assert "errors.Refused" in done.stderr
    assert "run it from a checkout" in done.stderr
