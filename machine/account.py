"""The account that servers run under: Postgres refuses to run as root, and memcached should not either."""

import contextlib
import errno
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from errors import Refused
from machine.file_lock import symlink_refused

PROBE_S = 10.0
"""A probe is one exec of a tiny program; only a hanging network file system takes longer."""


@dataclass(frozen=True)
class Account:
    """A user of this machine. `drop_privileges`: we are root, and children must change to this account."""

    name: str
    uid: int
    gid: int
    drop_privileges: bool

    def command_prefix(self, death_signal: str = "KILL") -> list[str]:
        """Return the prefix of a command that runs it as this account and signals it when its parent dies."""
        words = [_setpriv(), "--pdeathsig", death_signal]
        if self.drop_privileges:
            words += ["--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups"]
        return [*words, "--"]

    def can_access(self, test: str, path: Path) -> bool:
        """Say whether `test -x path` (or -r, -w) succeeds for this account, which includes all folders above."""
        command = [*self.command_prefix(), "test", test, str(path)]
        return subprocess.run(command, check=False, cwd="/", timeout=PROBE_S).returncode == 0  # noqa: S603 - our words

    def chown(self, path: Path) -> None:
        """Make this account the owner of `path` if we are root; else it is ours, as the account is.

        Of a link itself, not of what it leads to: the account may have made it.
        """
        if self.drop_privileges:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


@contextlib.contextmanager
def own_folder(path: Path, account: Account, *, at: int | None = None) -> Iterator[int]:
    """Make a folder, if it is missing, that only `account` may enter, and give it opened for the block.

    `at`: the folder around it, opened. No link is followed: the account may have put one there, and root would give
    away what it leads to. Raises Refused `symlink_refused`; OSError.
    """
    name = path if at is None else Path(path.name)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=at)
    try:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise symlink_refused(path) from error
        raise
    try:
        os.fchmod(handle, 0o700)
        if account.drop_privileges:
            os.fchown(handle, account.uid, account.gid)
        yield handle
    finally:
        os.close(handle)


def server_account() -> Account:
    """Return our own account; for root `postgres`, else `nobody`. Raises Refused `no_server_account`."""
    if os.geteuid() != 0:
        return own_account()
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid, drop_privileges=True)
    raise Refused(
        "no_server_account",
        "Postgres refuses root and this machine has neither a user postgres nor nobody; create one",
    )


def cache_account() -> Account:
    """Return the account for memcached: as `server_account`, but another where root runs both.

    Whoever takes over a memcached must not be able to read the clusters. Raises Refused `no_server_account`.
    """
    servers = server_account()
    if not servers.drop_privileges:
        return servers
    for name in ("memcache", "nobody", "daemon"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid not in (0, servers.uid):
                return Account(name, entry.pw_uid, entry.pw_gid, drop_privileges=True)
    raise Refused("no_server_account", "memcached needs an account other than Postgres' one; create a user memcache")


def account_of(folder: Path) -> Account:
    """Return our own account; for root the owner of `folder`, and where that is root, `server_account`.

    What another account has made, such as a service's backups, is read and gone on with as that account.
    """
    if os.geteuid() == 0 and folder.exists() and (uid := folder.stat().st_uid) != 0:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwuid(uid)
            return Account(entry.pw_name, uid, entry.pw_gid, drop_privileges=True)
    return server_account()


def own_account() -> Account:
    """Return the account of this process."""
    uid = os.geteuid()
    return Account(_name_of(uid), uid, os.getegid(), drop_privileges=False)


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
