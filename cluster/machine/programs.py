"""Programs from Debian (memcached, wrk, Redis): from PATH, else what set-up fetched, else fetched now, without root."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from cluster.machine.account import Account
from cluster.machine.checkout import CHECKOUT, SETUP
from envelope.errors import Refused

TOOLS = CHECKOUT / ".tools" / "root"
FETCH_S = 120.0


@dataclass(frozen=True)
class Program:
    """The program and the folders of the shared libraries that were fetched with it."""

    path: Path
    libraries: tuple[Path, ...] = ()

    def env(self) -> dict[str, str]:
        """Return the environment it needs."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}


async def find_program(
    name: str, account: Account, data: Path, tools: Path = TOOLS, *, package: str | None = None
) -> Program:
    """Return a program that `account` may run; raises Refused `no_<name>`. `package`: Debian's, if not of that name."""
    package = package or name
    on_path = shutil.which(name)
    if on_path and account.may("-x", Path(on_path)):
        return Program(Path(on_path))
    fetched = tools / "usr" / "bin" / name
    if not fetched.exists():
        await _fetch(package, tools)
    if not fetched.exists():
        raise Refused(
            f"no_{name}", f"{name} is missing and could not be fetched; install it (apt-get install {package})"
        )
    program = Program(fetched, _libraries(tools))
    return program if account.may("-x", fetched) else _copy(program, data / "software" / name)


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
    """Copy program and libraries to where the account may run them (root's checkout is often closed to others)."""
    to.mkdir(parents=True, exist_ok=True)
    for folder in program.libraries:
        for library in folder.glob("*.so*"):
            shutil.copy(library, to / library.name)
    shutil.copy(program.path, to / program.path.name)
    return Program(to / program.path.name, (to,))
