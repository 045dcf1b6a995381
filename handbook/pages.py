"""The parts of pages that are made from the code: as they stand in the files of `docs/`, and as Sphinx reads them.

A part stands between `<!-- from the code: NAME -->` and `<!-- end of NAME -->`, so that a page is whole where it is
read as a file, too: in an editor, on a site that shows Markdown. `docs/build --write` writes it there;
tests/unit/handbook/test_pages.py fails while it is older than the code. The site is made from the code itself.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from handbook.reference import PARTS

ONLY_IN_THE_SITE: Final = {
    "commands": "*The site, which `docs/build` makes, has every command here. `./run --help` names them, and "
    "`./run COMMAND --help` says the same.*",
}
"""What the file has in place of a part that is long and that readers of the file have nearer at hand."""
_MARK: Final = re.compile(
    r"^<!-- from the code: ([\w-]+) -->$(?:\n\n.*?^<!-- end of \1 -->$)?", re.MULTILINE | re.DOTALL
)
_LINK: Final = re.compile(r"\[`([^`\]]+)`\]\((\w+)\.md#([\w.-]+)\)")


def names(page: str) -> list[str]:
    """Return the parts that a page has, in order."""
    return [found[1] for found in _MARK.finditer(page)]


def for_site(page: str) -> str:
    """Return a page with its parts in place of the marks; raises LookupError for a name that no part has.

    Sphinx knows the headings of pages and not the anchors in their markup: links to these become markup as well.
    """
    return _fill(page, lambda name: _LINK.sub(_tag, PARTS[name]()))


def for_file(page: str) -> str:
    """Return a page as its file is to be: each part between its marks; raises LookupError as `for_site`."""

    def part(name: str) -> str:
        words = ONLY_IN_THE_SITE[name] if name in ONLY_IN_THE_SITE else PARTS[name]()
        return f"<!-- from the code: {name} -->\n\n{words}\n\n<!-- end of {name} -->"

    return _fill(page, part)


def stale(folder: Path) -> dict[Path, str]:
    """Return the pages below a folder whose parts are older than the code, each with the text that it is to have."""
    found: dict[Path, str] = {}
    for path in sorted(folder.rglob("*.md")):
        page = path.read_text(encoding="utf-8")
        wanted = for_file(page)
        if wanted != page:
            found[path] = wanted
    return found


def _fill(page: str, part: Callable[[str], str]) -> str:
    def filled(found: re.Match[str]) -> str:
        if found[1] not in PARTS:
            raise LookupError(f"nothing of the code is called {found[1]}")
        return part(found[1])

    return _MARK.sub(filled, page)


def _tag(link: re.Match[str]) -> str:
    return (
        f'<a class="reference internal" href="{link[2]}.html#{link[3]}">'
        f'<code class="docutils literal notranslate">{link[1]}</code></a>'
    )
