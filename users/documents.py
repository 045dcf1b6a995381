"""How an export is written, as its records come: JSON lines, or one JSON document. Both are UTF-8."""

import json
from collections.abc import AsyncIterator
from typing import TextIO

from users.export import SECTIONS, Record

ONE = ("account", "sums")
"""Sections of one record: an object in the document, where the others are lists."""


async def write_lines(records: AsyncIterator[Record], out: TextIO) -> None:
    """Write a line for each record: an object whose first member, `record`, is its section."""
    async for section, content in records:
        out.write(_text({"record": section, **content}) + "\n")


async def write_document(records: AsyncIterator[Record], out: TextIO) -> None:
    """Write one object with a member for each section, in their order, also for those that are empty."""
    sections = iter(SECTIONS)
    at, first = "", True
    async for section, content in records:
        if not at:
            # Only now: who asks for a user that is unknown gets no half of a document.
            at = next(sections)
            out.write("{" + _begun(at))
        while at != section:
            out.write(_ended(at, empty=first))
            at, first = next(sections), True
            out.write(", " + _begun(at))
        out.write(("" if first else ", ") + _text(content))
        first = False
    out.write(_ended(at, empty=first) + "}\n")


def _begun(section: str) -> str:
    return f'"{section}": ' + ("" if section in ONE else "[")


def _ended(section: str, *, empty: bool) -> str:
    if section in ONE:
        return "null" if empty else ""
    return "]"


def _text(content: object) -> str:
    return json.dumps(content, ensure_ascii=False)
