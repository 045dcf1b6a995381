"""What is not ours in web/vendor: exactly what npm has under the name and version of the manifest."""

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from gateway.site.files import FOLDER

VENDOR = FOLDER / "vendor"
MANIFEST = json.loads((VENDOR / "manifest.json").read_text())["files"]
PACK_S = 30


def test_the_manifest_is_whole() -> None:
    """Each file in the folder is in the manifest with its hash and its licence, and no other is."""
    named = {one["file"] for one in MANIFEST} | {one["licence_file"] for one in MANIFEST} | {"manifest.json"}
    assert {path.name for path in VENDOR.iterdir()} == named
    for one in MANIFEST:
        assert hashlib.sha256((VENDOR / one["file"]).read_bytes()).hexdigest() == one["sha256"], one["file"]
        text = (VENDOR / one["licence_file"]).read_text()
        assert {"MIT": "Permission is hereby granted", "Apache-2.0": "Apache License"}[one["licence"]] in text


@pytest.mark.parametrize("package", sorted({(one["package"], one["version"]) for one in MANIFEST}))
def test_they_are_those_of_npm(package: tuple[str, str], tmp_path: Path) -> None:
    """Packed from npm once more, each file and licence is the same to the byte."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm on this machine: vendored files are compared with their manifest only")
    name, version = package
    command = [npm, "pack", "--silent", "--ignore-scripts", f"{name}@{version}"]
    try:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PACK_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm's registry does not answer: vendored files are compared with their manifest only")
    if done.returncode:
        pytest.skip("npm's registry cannot be reached: vendored files are compared with their manifest only")
    (packed,) = tmp_path.glob("*.tgz")
    with tarfile.open(packed) as archive:
        for one in MANIFEST:
            if (one["package"], one["version"]) != package:
                continue
            for path, file in ((one["path"], one["file"]), (one["licence_path"], one["licence_file"])):
                member = archive.extractfile(f"package/{path}")
                assert member is not None
                assert member.read() == (VENDOR / file).read_bytes(), file
