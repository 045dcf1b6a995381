"""Ask tests that failed beside others three times more, alone: `python -m tests.alone`, after a run of pytest.

A test on a crowded machine fails now and then for want of time, and thousands of them make that a matter of every few
runs. One that passes REPEATS times in a row with nothing beside it is let through, and told; its first failure is
above, for whoever looks after it. More than MOST failures are no accident, and no test is asked.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

REPEATS = 3
MOST = 3
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def node_ids(keys: Sequence[str]) -> list[str]:
    """Return the IDs by which pytest finds these tests again: xdist has put `@` and their group behind some."""
    return [key if key.endswith("]") else key.rpartition("@")[0] or key for key in keys]


def passed_alone(tests: Sequence[str], run: Callable[[str], bool], tell: Callable[[str], None]) -> bool:
    """Say whether all of these tests pass REPEATS times in a row; a test that fails once more is not asked again."""
    if not 1 <= len(tests) <= MOST:
        return False
    everything = True
    for test in tests:
        passed = all(run(test) for _ in range(REPEATS))
        everything &= passed
        if passed:
            tell(
                f"PASSED ALONE  {test}: failed beside other tests, then passed {REPEATS} times. Read its failure above."
            )
        else:
            tell(f"FAILED ALONE  {test}")
    return everything


def _run(test: str) -> bool:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", test], check=False).returncode == 0


if __name__ == "__main__":
    failed = json.loads(_LAST_FAILED.read_text()) if _LAST_FAILED.exists() else {}
    sys.exit(not passed_alone(node_ids(list(failed)), _run, partial(print, flush=True)))
