"""Examples in the documentation: each is run by a test, or says why it is not."""

from pathlib import Path

import pytest

from tests.markdown_blocks import DOCS, blocks

ROOT = DOCS.parent
PAGES = sorted(path.relative_to(DOCS) for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_each_example_is_run_or_says_why_not(page: Path) -> None:
    """Before each block of code stands the test that runs it, which names the page, or the reason why none does."""
    for block in blocks(DOCS / page):
        assert block.run_by or block.why_not, f"{page}:{block.line} has no mark: `<!-- run by: … -->` or `not run: …`"
        if block.run_by:
            assert str(page) in (ROOT / block.run_by).read_text(), f"{block.run_by} does not run {page}"


def test_blocks_are_found(tmp_path: Path) -> None:
    """Fenced and indented blocks, with their marks; an item of a list that goes on is no block."""
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- run by: a.py -->\n```python\nx = 1\n```\n\n- item\n\n    goes on\n\ntext\n\n"
        "<!-- not run: why -->\n\n    b\n\n"
        "    c\n\n```sh\nd\n```\n```{toctree}\ne\n```\n"
    )
    assert [(one.language, one.code, one.run_by, one.why_not) for one in blocks(page)] == [
        ("python", "x = 1\n", "a.py", ""),
        ("", "b\n\nc\n", "", "why"),
        ("sh", "d\n", "", ""),
    ]
