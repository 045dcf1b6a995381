"""What pages have from the code stands in their files, too, and links lead to it there as they do in the site."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from handbook.pages import ONLY_IN_THE_SITE, for_file, for_site, names, stale
from handbook.reference import PARTS
from tests.handbook_site import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(ROOT) for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md")))
_LINK = re.compile(r"\]\(([^)#\s]*\.md)?#([^)\s]+)\)")


def test_no_page_is_older_than_the_code() -> None:
    """Each part from the code stands in its page as the code has it now."""
    old = ", ".join(str(path.relative_to(ROOT)) for path in stale(DOCS))
    assert old == "", f"{old}: older than the code; run `docs/build --write` and commit what it writes"


def test_every_part_is_in_a_page() -> None:
    """Each part of the reference stands in one page, and no page names another."""
    found = [name for path in DOCS.rglob("*.md") for name in names(path.read_text())]
    assert sorted(found) == sorted(PARTS)


def test_a_page_is_filled_again_and_again() -> None:
    """What was between the marks goes; what stands around them stays, and a second time changes nothing."""
    page = (
        "# A\n\n<!-- from the code: advice -->\n\nof before\n\n<!-- end of advice -->\n\nB\n\n"
        "<!-- from the code: commands -->\n\nC\n"
    )
    once = for_file(page)
    assert "of before" not in once
    assert once.startswith("# A\n\n<!-- from the code: advice -->\n\n| `retry` |")
    assert "| yes |\n\n<!-- end of advice -->\n\nB\n" in once
    assert once.endswith(f"{ONLY_IN_THE_SITE['commands']}\n\n<!-- end of commands -->\n\nC\n")
    assert for_file(once) == once
    assert "<!--" not in for_site(once)
    with pytest.raises(LookupError, match="nothing of the code is called other"):
        for_file("<!-- from the code: other -->\n")


def test_links_to_anchors_become_markup_in_the_site() -> None:
    """In a file they are Markdown; in the site markup, because Sphinx does not know anchors that stand in markup."""
    page = (DOCS / "reference" / "api.md").read_text()
    assert "[`token_expired`](problems.md#token_expired)" in page
    assert 'href="problems.html#token_expired"' in for_site(page)
    assert "problems.md#" not in for_site(page)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_to_anchors_of_the_file(page: Path) -> None:
    """Each link to an anchor finds it in the file: a heading by the rule of sites that show Markdown, or markup."""
    text = (ROOT / page).read_text()
    found = [
        (name, anchor, _anchors((ROOT / page).parent / name if name else ROOT / page))
        for name, anchor in _LINK.findall(text)
    ]
    assert [f"{name}#{anchor}" for name, anchor, there in found if anchor not in there] == []


def test_the_command_writes_what_is_old() -> None:
    """`python -m handbook --write` says that nothing is to be written, since the test above holds."""
    done = subprocess.run(
        [sys.executable, "-m", "handbook", "--write"], cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "every page has what the code says\n"


@functools.cache
def _anchors(path: Path) -> set[str]:
    text = path.read_text()
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set(re.findall(r'id="([^"]+)"', text))
    for title in re.findall(r"^#+ (.+)$", plain, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("\\", "")
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(next(one for one in (slug, *(f"{slug}-{n}" for n in range(1, 99))) if one not in found))
    return found
