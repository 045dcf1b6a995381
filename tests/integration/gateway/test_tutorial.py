"""The tutorial, docs/tutorial/group-chat.md: its program and its commands, typed as a reader types them, on a stack."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.handbook_site import ROOT
from tests.integration.gateway.fixtures import RealStack
from tests.markdown_blocks import DOCS, blocks

PAGE = DOCS / "tutorial/group-chat.md"
HERE = str(Path(__file__).relative_to(ROOT))
RUN_S = 90
AGAIN = "if python3 chat.py 2>refused; then exit 7; fi"
"""Once more, as the page says: the sender has no money left for it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which `./run` and `python3` are the project's, with `chat.py` as the page has it."""
    run = '#!/bin/sh\nexec python3 -m cli "$@"\n'
    (tmp_path / "bin").mkdir()
    for path, text in ((tmp_path / "run", run), (tmp_path / "bin/python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    parts = [one.code for one in blocks(PAGE) if one.language == "python" and one.run_by == HERE]
    (tmp_path / "chat.py").write_text("\n\n".join(parts))
    return tmp_path


def shape(line: str) -> str:
    """Return a line without what differs from run to run."""
    line = re.sub(r"\b(mei|bob|carol|dave|erin|frank|grace)\b", "NAME", line)
    return " ".join(re.sub(r"\d+\.\d\d yuan", "FEN", line).replace("  best luck", "").split())


@pytest.mark.timeout(RUN_S + 60)
def test_the_tutorial(stack: RealStack, folder: Path) -> None:
    """What a reader types does what the page says: five of seven win, 20.00 yuan in all, and the split is proven."""
    commands = [one.code for one in blocks(PAGE) if one.language == "sh" and one.run_by == HERE]
    assert len(commands) == 4
    env = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "HONGBAO_DATA": str(stack.data),
        "GATEWAY": stack.gateway_url,
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        ["sh", "-eu"], input="\n".join([*commands, AGAIN]), cwd=folder, env=env, capture_output=True, text=True,
        check=False, timeout=RUN_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    (shown,) = [one.code for one in blocks(PAGE) if one.language == "text"]
    told = done.stdout.splitlines()
    begin = next(i for i, line in enumerate(told) if "[red packet" in line)
    said = told[begin : begin + len(shown.splitlines())]
    assert sorted(map(shape, said)) == sorted(map(shape, shown.splitlines()))
    assert "  5 of 5 shares, 20.00 yuan" in said
    assert (folder / "refused").read_text().startswith("refused: insufficient_funds")
    assert "5 shares, all as the seed gives them by" in done.stdout


def test_the_program_is_whole() -> None:
    """Every block of Python on the page is a part of the program, in its order; and it is short enough to type."""
    parts = [one for one in blocks(PAGE) if one.language == "python"]
    assert all(one.run_by == HERE for one in parts)
    program = "\n\n".join(one.code for one in parts)
    compile(program, "chat.py", "exec")
    assert len(program.splitlines()) < 140
