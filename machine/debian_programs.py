"""Programs from Debian packages (memcached, wrk, Redis): on PATH, fetched by set-up, or fetched now without root."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from errors import Refused
from machine.account import Account
from machine.checkout import CHECKOUT, SETUP

TOOLS = CHECKOUT / ".tools" / "root"
FETCH_S = 120.0


@dataclass(frozen=True)
class Program:
    """A program, and the folders of the shared libraries that were fetched with it."""

    path: Path
    libraries: tuple[Path, ...] = ()

    def env(self) -> dict[str, str]:
        """Return the environment variables that it needs."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}


async def find_program(
    name: str, account: Account, data: Path, tools: Path = TOOLS, *, package: str | None = None
) -> Program:
    """Return a program that `account` can run; raises Refused `no_<name>`. `package`: of Debian, if not `name`.

    If `account` cannot enter the folder of a fetched program, it is copied to `data`.
    """
    package = package or name
    on_path = shutil.which(name)
    if on_path and account.can_access("-x", Path(on_path)):
        return Program(Path(on_path))
    fetched = tools / "usr" / "bin" / name
    if not fetched.exists():
        await _fetch(package, tools)
    if not fetched.exists():
        raise Refused(
            f"no_{name}", f"{name} is missing and could not be fetched; install it (apt-get install {package})"
        )
    program = Program(fetched, _libraries(tools))
    return program if account.can_access("-x", fetched) else _copy(program, data / "software" / name)


def _libraries(tools: Path) -> tuple[Path, ...]:
    return (*tools.glob("usr/lib/*-linux-gnu*"), *tools.glob("lib/*-linux-gnu*"))


async def _fetch(package: str, tools: Path) -> None:
    script = SETUP / "debian.sh"
    process = await asyncio.create_subprocess_exec(
        "sh", str(script), str(tools), package,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(FETCH_S):
            await process.wait()
    except TimeoutError:
        process.terminate()
        await process.wait()


def _copy(program: Program, to: Path) -> Program:
    """Copy program and libraries to a folder that the account can enter: it often cannot enter root's checkout."""
    to.mkdir(parents=True, exist_ok=True)
    for folder in program.libraries:
        for library in folder.glob("*.so*"):
            shutil.copy(library, to / library.name)
    shutil.copy(program.path, to / program.path.name)
    return Program(to / program.path.name, (to,))
