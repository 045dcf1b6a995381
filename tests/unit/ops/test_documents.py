"""What docs/contract.md says of the operators' port, held against the code."""

import re
from pathlib import Path

from ops.actions import Do
from ops.problems import STATUS
from ops.reads import Lists
from ops.routes import Routes

ROOT = Path(__file__).resolve().parents[3]
SECTION = (ROOT / "docs" / "contract.md").read_text().partition("## The operators' port")[2].partition("\n## ")[0]


def test_every_path_is_in_the_contract() -> None:
    """Each method and path that is served, and nothing else."""
    app = Routes(*[None] * 8).app()  # type: ignore[arg-type]
    served = {(route.method, route.resource.canonical) for route in app.router.routes() if route.resource is not None}
    pages = {("GET", "/"), ("GET", "/ops"), ("GET", "/ops/{path}")}
    written = set()
    for cell in re.findall(r"^\| (.+?) \|", SECTION, re.MULTILINE):
        method = ""
        for text in re.findall(r"`([^`]+)`", cell):
            words = text.split()
            method = words[0] if words[0] in ("GET", "POST") else method
            path = words[-1].partition("?")[0]
            if path.startswith("/"):
                written.add((method, path))
    assert {one for one in served if one[0] != "HEAD"} - pages == written


def test_every_code_and_word_is_in_the_contract() -> None:
    """Codes with a status of their own, the actions, and the lists."""
    lists = Lists(None)  # type: ignore[arg-type]
    for name in (*STATUS, *Do, *lists.names):
        assert f"`{name}`" in SECTION, name
    for code, status in STATUS.items():
        assert re.search(rf"\b{int(status)}[^;]*`{code}`", SECTION), code
