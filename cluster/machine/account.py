"""The account that servers run as: Postgres refuses root, and memcached should not be root either."""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from envelope.errors import Refused

PROBE_S = 10.0
"""A probe is one exec of a tiny program; only a hanging network file system takes longer."""


@dataclass(frozen=True)
class Account:
    """A user of this machine; `drop` says whether we must change to it because we are root."""

    name: str
    uid: int
    gid: int
    drop: bool

    def prefix(self, death_signal: str = "KILL") -> list[str]:
        """Return the words before a command that run it as this account and signal it when its parent dies."""
        words = [_setpriv(), "--pdeathsig", death_signal]
        if self.drop:
            words += ["--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups"]
        return [*words, "--"]

    def may(self, test: str, path: Path) -> bool:
        """Say whether `test -x path` (or -r, -w) holds for this account, all folders above included."""
        command = [*self.prefix(), "test", test, str(path)]
        return subprocess.run(command, check=False, cwd="/", timeout=PROBE_S).returncode == 0  # noqa: S603 - our words

    def own(self, path: Path) -> None:
        """Give `path` to this account, where we may."""
        if self.drop:
            os.chown(path, self.uid, self.gid)


def server_account() -> Account:
    """Return ourselves, or, when we are root, `postgres`, else `nobody`."""
    uid = os.geteuid()
    if uid != 0:
        return Account(_name_of(uid), uid, os.getegid(), drop=False)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid, drop=True)
    raise Refused(
        "no_server_account",
        "Postgres refuses root and this machine has neither a user postgres nor nobody; create one",
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _setpriv() -> str:
    found = shutil.which("setpriv", path=f"{os.environ.get('PATH', '')}:/usr/bin:/bin")
    if found is None:
        raise Refused("no_setpriv", "setpriv is missing; install util-linux, which has it")
    return found
