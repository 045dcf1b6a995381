"""Takes styles and scripts out of HTML into files, so that a policy without `unsafe-inline` shows the same page.

On the way it adds what assistive technology needs and the theme leaves out.
"""

import os
import re
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Final

_STATIC: Final = "_static"
_INLINE: Final = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_STYLED: Final = re.compile(r"<[a-zA-Z][^<>]*?\sstyle=\"[^\"]*\"[^<>]*>")
_STYLE: Final = re.compile(r"\sstyle=\"([^\"]*)\"")
_CLASS: Final = re.compile(r"\sclass=\"([^\"]*)\"")
_REPAIRS: Final = (
    # A heading by role needs a level, and what scrolls must be reached by keyboard (WAI-ARIA, WCAG 2.1.1).
    ('role="heading">', 'role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="On this page" class="toc-drawer'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<div class="highlight"><pre>', '<div class="highlight"><pre tabindex="0">'),
)
"""What the theme's markup lacks for readers who use no mouse, or no eyes."""
_LONG_NAME: Final = re.compile(r"<span class=\"pre\">\w{20,}</span>")
"""In code, such as `HONGBAO_CONNECTIONS_PER_ADDRESS`: on a phone it may break after an underscore."""
_DIGITS: Final = 10


def externalize(site: Path) -> None:
    """Give every inline script, style and style attribute of all pages in `site` a file, or a class in a file."""
    classes: dict[str, str] = {}
    pages = sorted(site.rglob("*.html"))
    sheet = f"{_STATIC}/from-attributes.css"
    for page in pages:
        root = os.path.relpath(site, page.parent)
        text = page.read_text(encoding="utf-8")
        text = _STYLED.sub(lambda found: _with_class(found[0], classes), text)
        text = _INLINE.sub(lambda found, root=root: _with_file(found[1], found[2], site, root), text)  # type: ignore[misc]
        for old, new in _REPAIRS:
            text = text.replace(old, new)
        text = _LONG_NAME.sub(lambda found: found[0].replace("_", "_<wbr>"), text)
        head = f'<link rel="stylesheet" href="{root}/{sheet}">\n</head>'
        page.write_text(text.replace("</head>", head, 1), encoding="utf-8")
    rules = [f".{name}{{{style}}}" for style, name in sorted(classes.items())]
    (site / sheet).write_text("\n".join(rules) + "\n", encoding="utf-8")


def _with_class(tag: str, classes: dict[str, str]) -> str:
    """Return a tag with a class in the place of its style."""
    found = _STYLE.search(tag)
    style = unescape(found[1]).strip() if found else ""
    name = classes.setdefault(style, f"s-{_digest(style)}")
    bare = _STYLE.sub("", tag, count=1)
    if _CLASS.search(bare):
        return _CLASS.sub(lambda old: f' class="{old[1]} {name}"', bare, count=1)
    return re.sub(r"^<([a-zA-Z][\w-]*)", rf'<\1 class="{name}"', bare)


def _with_file(kind: str, text: str, site: Path, root: str) -> str:
    """Return the tag that loads what stood inline, at the same place and so at the same time."""
    name = f"{_STATIC}/inline-{_digest(text)}.{'js' if kind == 'script' else 'css'}"
    (site / name).write_text(text.strip() + "\n", encoding="utf-8")
    url = f"{root}/{name}"
    return f'<script src="{url}"></script>' if kind == "script" else f'<link rel="stylesheet" href="{url}">'


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGITS]
