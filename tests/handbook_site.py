"""The documentation site, built once for all workers of a run. A test module imports `handbook_site`, in `__all__`."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.once import locked

ROOT = Path(__file__).resolve().parents[1]
BUILD_S = 300


def build(folder: Path, code: str = "") -> tuple[subprocess.CompletedProcess[str], float]:
    """Run `python -m handbook FOLDER`, or `code`, in a process of its own; returns it and the CPU seconds it took."""
    command = [sys.executable, *(["-c", code] if code else ["-m", "handbook"]), str(folder)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
        timeout=BUILD_S,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="session")
def handbook_site() -> Path:
    """The folder of the built site; fails with what is wrong with it."""
    shared = Path(os.environ["HONGBAO_TESTS_SHARE"])
    site = shared / "handbook"
    with locked(shared / "handbook.lock"):
        if not site.exists():
            done, seconds = build(site)
            assert done.returncode == 0, done.stderr
            (shared / "handbook.seconds").write_text(str(seconds))
            (shared / "handbook.said").write_text(done.stdout)
    return site


def build_seconds() -> float:
    """Return the CPU seconds that the build took in this run."""
    return float((Path(os.environ["HONGBAO_TESTS_SHARE"]) / "handbook.seconds").read_text())


def build_said() -> str:
    """Return what the build printed in this run."""
    return (Path(os.environ["HONGBAO_TESTS_SHARE"]) / "handbook.said").read_text()
