"""The Sphinx extension: what is between the marks of a page (`handbook.pages`) is made anew from the code."""

from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from handbook import pages


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls it once."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the parts into a page; a mark with a name that there is not fails the build."""
    del app
    try:
        source[0] = pages.for_site(source[0])
    except LookupError as error:
        raise ExtensionError(f"{name}: {error.args[0]}") from error
