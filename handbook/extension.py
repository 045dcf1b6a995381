"""The Sphinx extension: `<!-- from the code: NAME -->` in a page becomes that part of the reference.

The line IN_A_CHECKOUT below it tells those who read the page as a file where the part is; the site has the part.
"""

import re
from typing import Any, Final

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from handbook.reference import PARTS

IN_A_CHECKOUT: Final = "*This part is made from the code: `docs/build` makes the site, in which it stands.*"
_MARK: Final = re.compile(rf"^<!-- from the code: ([\w-]+) -->$(?:\n\n{re.escape(IN_A_CHECKOUT)}$)?", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls it once."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the parts into a page; a mark with a name that there is not fails the build."""
    del app

    def part(found: re.Match[str]) -> str:
        if found[1] not in PARTS:
            raise ExtensionError(f"{name}: nothing of the code is called {found[1]}")
        return PARTS[found[1]]()

    source[0] = _MARK.sub(part, source[0])
