"""Finds links of a built site that lead nowhere: files that are not there, anchors that no page has, odd addresses."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_LINKS: Final = {"href", "src", "data-content_root"}
_EXTERNAL: Final = re.compile(r"https://[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?(?:[/?#]\S*)?", re.ASCII)
"""The form of an address elsewhere. Whether anything answers there is not asked: builds need no network."""


class _Page(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names."""
        del tag
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.append(value)
            elif name in _LINKS and value:
                self.links.append(value)


def broken(site: Path) -> list[str]:
    """Return a sentence for each link that leads nowhere and each anchor that a page has twice."""
    site = site.resolve()
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, page in pages.items():
        where = path.relative_to(site)
        twice = {one for one in page.anchors if page.anchors.count(one) > 1} if _has_twice(page.anchors) else set()
        found += [f"{where}: the anchor #{one} is there twice" for one in sorted(twice)]
        found += [f"{where}: {link}: {why}" for link, why in _broken_of(path, page, pages, site)]
    return found


def _has_twice(anchors: list[str]) -> bool:
    return len(set(anchors)) != len(anchors)


def _broken_of(path: Path, page: _Page, pages: dict[Path, _Page], site: Path) -> Iterator[tuple[str, str]]:
    for link in dict.fromkeys(page.links):
        why = _why_broken(link, path, pages, site)
        if why:
            yield link, why


def _why_broken(link: str, path: Path, pages: dict[Path, _Page], site: Path) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return "" if _EXTERNAL.fullmatch(link) else "is no https address"
    target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    if target == site.resolve() or target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site.resolve()):
        return "leads out of the site"
    if not target.is_file():
        return "there is no such file"
    anchor = unquote(parts.fragment)
    if anchor and target.suffix == ".html" and anchor not in pages[target].anchors:
        return f"{target.name} has no anchor #{anchor}"
    return ""
