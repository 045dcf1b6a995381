"""Units of systemd, as far as tests look into them."""

import shlex
from pathlib import Path

from tests.unit.deploy.files import DEPLOY

HERE = DEPLOY / "systemd"
PROGRAM = "/opt/hongbao/bin/hongbao"
_STANDS_FOR = {"%i": "set-1-a", "%t": "/run", "%S": "/var/lib", "%d": "/run/credentials"}


def services() -> list[Path]:
    """Return the files of all services."""
    return sorted(HERE.glob("*.service"))


def settings(path: Path) -> dict[str, list[str]]:
    """Return the settings of a unit, of all its sections; one may stand there several times."""
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and line[0] not in "#[":
            name, separated, value = line.partition("=")
            assert separated, f"{path.name}: {line}"
            found.setdefault(name, []).append(value)
    return found


def commands(path: Path) -> list[list[str]]:
    """Return the arguments of each `hongbao` that a service runs, with its specifiers replaced."""
    found = []
    for line in settings(path).get("ExecStart", ()):
        text = line
        for sign, stands_for in _STANDS_FOR.items():
            text = text.replace(sign, stands_for)
        words = shlex.split(text)
        if words[0] == PROGRAM:
            found.append(words[1:])
    return found
