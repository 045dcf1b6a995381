"""The processes of the release before this one, from the history of this checkout, for tests of both together.

`COMMIT` is the one place that names it: a release sets it to the commit of the release before, and writes
tests/integration/wire/messages_vN.json anew. `modules` are for `StackConfig`: `python -m tests.last_release.gateway`
becomes `python -m gateway` of that release, with the environment it was given.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest

from machine.checkout import CHECKOUT

COMMIT = "3bf570d"
FOLDER = "HONGBAO_LAST_RELEASE"
"""Names the folder of its code to the processes that `become` it."""
KINDS = ("wallet", "setnode", "gateway")


def unpack(folder: Path) -> Path:
    """Write the code of the last release into `folder`, once; skips the test where the history does not have it."""
    if (folder / "wire").exists():
        return folder
    command = ["git", "-C", str(CHECKOUT), "archive", "--format=tar", COMMIT]
    try:
        archive = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    except FileNotFoundError:
        pytest.skip("git is not installed: the code of the last release is in the history alone")
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        pytest.skip(f"the history has no {COMMIT}, the last release (a shallow clone, or no clone?): {''.join(said)}")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True, timeout=60)
    for one in folder.rglob("*"):
        one.chmod(0o755 if one.is_dir() else 0o644)
    return folder


def modules(old: Iterable[str]) -> dict[str, str]:
    """Return what `python -m` runs for each kind of process, if these kinds are of the last release."""
    return {kind: f"tests.last_release.{kind}" if kind in old else kind for kind in (*KINDS, "ops", "events")}


def become(kind: str) -> NoReturn:
    """Go on as that process of the last release: same process ID, environment and inherited files."""
    env = {**os.environ, "PYTHONPATH": os.environ[FOLDER]}
    os.execve(sys.executable, [sys.executable, "-P", "-m", kind], env)  # noqa: S606 - ourselves
