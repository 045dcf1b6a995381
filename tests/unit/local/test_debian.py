"""setup/debian.sh with an apt-get and a dpkg of our own: what happens when several ask at the same time."""

import os
import subprocess
from pathlib import Path

from machine.checkout import SETUP

PROGRAMS = {
    "apt-get": """case "$*" in
*install*) for package in "$@"; do :; done; echo "Inst $package" ;;
*download*) for package in "$@"; do :; done; sleep 0.1; : >"$package.deb"; echo "$package" >>"$CALLS" ;;
esac""",
    "dpkg": 'name=$(basename "$2" .deb); mkdir -p "$3/usr/bin"; : >"$3/usr/bin/$name"',
}


def test_several_at_once_wait_and_fetch_once(tmp_path: Path) -> None:
    """Two that want one package fetch it once; a third, for another, loses nothing to them."""
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    calls = tmp_path / "calls"
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls)}
    command = ["sh", str(SETUP / "debian.sh"), str(tmp_path / "root")]
    running = [subprocess.Popen([*command, package], env=environment) for package in ("first", "first", "second")]
    assert [process.wait(30) for process in running] == [0, 0, 0]
    assert sorted(calls.read_text().split()) == ["first", "second"]
    assert {path.name for path in (tmp_path / "root/usr/bin").iterdir()} == {"first", "second"}
