"""What is vendored is what npm has: re-packed and compared byte for byte, where npm is."""

import json
from pathlib import Path
from typing import Any

import pytest

from errors import Unavailable
from tests.browser.npm import packed

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = sorted(ROOT.glob("*/web/vendor/manifest.json"))
ROWS = [(one.parent, row) for one in MANIFESTS for row in json.loads(one.read_text())]


@pytest.mark.parametrize(("folder", "row"), ROWS, ids=[row["file"] for _, row in ROWS])
async def test_a_vendored_file_is_npm_s(folder: Path, row: dict[str, Any]) -> None:
    """The file is the one in the package of the manifest's name and version; without npm this is skipped."""
    try:
        content = await packed(row["name"], row["version"], row["source"], row["sha256"])
    except Unavailable as why:
        pytest.skip(why.detail)
    assert (folder / row["file"]).read_bytes() == content
