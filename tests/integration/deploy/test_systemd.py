"""The tools of systemd on deploy/systemd: units are right, and confine what they start."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from machine.debian_programs import TOOLS
from tests.integration.deploy.programs import check
from tests.unit.deploy.units import HERE, PROGRAM, services

MOST_EXPOSED = 15
"""Of systemd's own measure, tenths of 0 (nothing) to 10 (all of the host)."""


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units in a folder, with a program that is there in the place of ours."""
    folder = tmp_path / "units"
    shutil.copytree(HERE, folder)
    for path in folder.glob("*.service"):
        path.write_text(path.read_text().replace(PROGRAM, "/bin/true"))
    return folder


async def analyze(folder: Path, *words: str) -> str:
    """Run systemd-analyze; it has a library in a folder of its own."""
    own = {"LD_LIBRARY_PATH": ":".join(map(str, TOOLS.glob("usr/lib/*-linux-gnu/systemd")))}
    env = {} if shutil.which("systemd-analyze") else own
    return await check("systemd", folder, "systemd-analyze", *words, env=env)


async def test_every_unit_is_right(units: Path, tmp_path: Path) -> None:
    """Nothing in a unit is unknown to systemd, and nothing is missing."""
    files = [path for path in sorted(units.iterdir()) if path.suffix in (".service", ".timer", ".target")]
    assert await analyze(tmp_path, "verify", "--man=no", *map(str, files)) == ""


async def test_a_misspelt_setting_is_found(units: Path, tmp_path: Path) -> None:
    """A setting that systemd does not know is told."""
    unit = units / "hongbao-wallet.service"
    unit.write_text(unit.read_text().replace("TimeoutStopSec", "TimeoutStopSecs"))
    assert "TimeoutStopSecs" in await analyze(tmp_path, "verify", "--man=no", str(unit))


async def test_every_service_is_confined(units: Path, tmp_path: Path) -> None:
    """By systemd's measure no service is exposed more than a process needs that talks over the network."""
    security = partial(analyze, tmp_path, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager")
    await security(*(str(units / path.name) for path in services()))
