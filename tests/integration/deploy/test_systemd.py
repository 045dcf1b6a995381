"""The tools of systemd on deploy/systemd: units are right, and confine what they start."""

import os
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from installation import data_folder
from installation.certificates import Certificates
from machine.debian_programs import TOOLS
from tests.integration.deploy.programs import check
from tests.unit.deploy.units import HERE, PROGRAM, services, settings

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


async def test_the_drop_ins_for_tls_fit_the_units(units: Path, tmp_path: Path) -> None:
    """Beside its unit a drop-in for TLS is right, and what is wrong in one is told."""
    here = [units / unit.name for unit in services()]
    for unit in here:
        kind = "operator" if "/etc/hongbao/operator/" in unit.read_text() else "process"
        drop_in = units / f"{unit.name}.d" / "tls.conf"
        drop_in.parent.mkdir()
        shutil.copy(HERE / "tls" / f"{kind}.conf", drop_in)
    assert await analyze(tmp_path, "verify", "--man=no", *map(str, here)) == ""
    drop_in.write_text(drop_in.read_text().replace("LoadCredential", "LoadCredentials"))
    assert "LoadCredentials" in await analyze(tmp_path, "verify", "--man=no", *map(str, here))


@pytest.mark.parametrize("kind", ["process", "operator"])
def test_a_unit_starts_again_with_the_certificates_of_before_in_its_folder(kind: str, server_folder: Path) -> None:
    """Credentials are nobody's to write, and a folder in /var/lib stays: each start brings those of today."""
    loaded, state = server_folder / "loaded", server_folder / "state"
    loaded.mkdir()
    state.mkdir(mode=0o777)
    state.chmod(0o777)
    (command,) = settings(HERE / "tls" / f"{kind}.conf")["ExecStartPre"]
    words = [word.replace("$$", "$") for word in shlex.split(command)]
    as_service = ["setpriv", "--reuid=nobody", "--clear-groups"] if os.geteuid() == 0 else []
    for content in ("of yesterday", "of today"):
        credential = loaded / "certificates_ca.pem"
        credential.unlink(missing_ok=True)
        credential.write_text(content)
        credential.chmod(0o444)
        environment = {"STATE_DIRECTORY": str(state), "CREDENTIALS_DIRECTORY": str(loaded), "PATH": os.defpath}
        subprocess.run([*as_service, *words], check=True, env=environment)
    seen = subprocess.run([*as_service, "cat", str(state / "certificates/ca.pem")], check=True, capture_output=True)
    assert seen.stdout.decode() == "of today"


def test_a_drop_in_for_tls_hands_the_certificates_over(tmp_path: Path) -> None:
    """What systemd loads of the folder stands beside the installation file, where `serve` looks, its owner's alone."""
    loaded, private = tmp_path / "loaded", tmp_path / "private"
    loaded.mkdir()
    private.mkdir()
    for name in ("installation.toml", "certificates_ca.pem", "certificates_set-1-a.pem"):
        (loaded / name).write_text(name)
    (command,) = settings(HERE / "tls" / "process.conf")["ExecStartPre"]
    words = [word.replace("$$", "$") for word in shlex.split(command)]
    for variable in ("RUNTIME_DIRECTORY", "STATE_DIRECTORY"):
        subprocess.run(words, check=True, env={variable: str(private), "CREDENTIALS_DIRECTORY": str(loaded)})
        brought = Certificates(data_folder.locate(private / "installation.toml").certificates)
        files = brought.files("set-1-a")
        assert files is not None
        assert (files.cert.read_text(), files.ca.read_text()) == ("certificates_set-1-a.pem", "certificates_ca.pem")
        assert {path.stat().st_mode & 0o777 for path in brought.folder.iterdir()} == {0o600}
        shutil.rmtree(brought.folder)
