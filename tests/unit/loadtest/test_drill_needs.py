"""The drill is run where the system runs: with what `./run` installs, and nothing that only benchmarks need."""

import subprocess
import sys

_LOOK = """
import sys
for name in ("locust", "matplotlib", "redis"):
    sys.modules[name] = None
import loadtest.drill.command
"""


def test_the_drill_needs_nothing_that_only_benchmarks_need() -> None:
    """Importing it where the packages of the group `bench` are missing works."""
    done = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
