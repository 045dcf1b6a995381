"""What the reference pages are written with: tables, escapes, anchors, links to anchors of other pages."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_CODE: Final = re.compile(r"(`[^`]*`)")
_SPECIAL: Final = re.compile(r"([\\*_<>|\[\]{}$])")


def text(words: str) -> str:
    """Return words as Markdown that shows just them; what stands in backticks is code."""
    parts = _CODE.split(" ".join(words.split()))
    return "".join(part.replace("|", r"\|") if part[:1] == "`" else _SPECIAL.sub(r"\\\1", part) for part in parts)


def paragraphs(words: str) -> str:
    """Return text of several paragraphs."""
    return "\n\n".join(text(part) for part in words.split("\n\n"))


def code(words: str) -> str:
    """Return words as code in a line."""
    mark = "``" if "`" in words else "`"
    return f"{mark}{words}{mark}".replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or nothing if it has no row. Cells are Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *lines]) if lines else ""


def block(language: str, words: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{words}\n```"


def anchor(name: str) -> str:
    """Return an anchor of exactly this name: Sphinx' own are in lower case and without underscores."""
    return f'<span id="{escape(name)}"></span>'


def link(words: str, target: str) -> str:
    """Return a link to an anchor of `anchor`, on this page or another one of the same folder (`page.md#name`)."""
    return f"[{code(words)}]({target})"


def sections(parts: Iterable[str]) -> str:
    """Return what is there of these parts, with a line between."""
    return "\n\n".join(part for part in parts if part)
