"""Pages of lists: newest first, `limit` and an opaque `cursor` in, `items` and `next_cursor` out."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from multidict import MultiMapping

from envelope.limits import LIMITS
from errors import Refused
from gateway.http.request import Request
from gateway.limits import CLAIMS_PAGE, CLAIMS_PAGE_MOST, CURSOR_CHARS, DEFAULT_PAGE, PAGE

CURSOR_PATTERN: Final = rf"^[A-Za-z0-9_-]{{1,{CURSOR_CHARS}}}$"
PARAMETERS: Final = ("limit", "cursor")
"""What every list takes."""
_MOST: Final = 2**63 - 1


class Page(NamedTuple):
    """The part of a list that a client asks for: at most `limit` rows numbered below `before` (0: the newest)."""

    listing: str
    before: int
    limit: int

    def body(self, rows: Sequence[Any], item: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the page as JSON values. The first value of a row is its number in the list.

        A full page has a `next_cursor` even if it is the last one; the page after it is empty.
        """
        more = len(rows) >= self.limit
        return {
            "items": [item(row) for row in rows],
            "next_cursor": write_cursor(self.listing, rows[-1][0]) if more else None,
        }


def read_page(listing: str, query: MultiMapping[str]) -> Page:
    """Read `limit` and `cursor` of a query; raises Refused `malformed_limit`, `malformed_cursor`.

    `listing` names the list, so that a cursor of one list is refused by another. Other parameters are ignored: call
    `check_names` for them.
    """
    limit, cursor = one(query, "limit"), one(query, "cursor")
    return Page(listing, 0 if cursor is None else read_cursor(listing, cursor), _limit(limit))


def read_claims_page(request: Request) -> tuple[int, int]:
    """Return the first seq and the number of claims that a detail asks for, by its `cursor` and `limit`.

    Raises Refused `malformed_limit`, `malformed_cursor`, `repeated_parameter`.
    """
    if "?" not in request.raw_path:
        return 0, CLAIMS_PAGE
    query = request.url.query
    limit, cursor = one(query, "limit"), one(query, "cursor")
    if cursor is not None and not _is_seq(cursor):
        raise Refused("malformed_cursor", "send a cursor as it was given in next_cursor, or none to begin at the top")
    return 0 if cursor is None else int(cursor), CLAIMS_PAGE if limit is None else _limit(limit, CLAIMS_PAGE_MOST)


def check_names(query: MultiMapping[str], *more: str) -> None:
    """Raise Refused `unknown_parameter` for a name that this list does not have: a typo must not be ignored."""
    check_known(query, (*PARAMETERS, *more))


def check_known(query: MultiMapping[str], known: Sequence[str]) -> None:
    """Raise Refused `unknown_parameter` for a name that is not known here."""
    for name in query:
        if name not in known:
            raise Refused("unknown_parameter", f"there is no parameter {name[:50]!r} here; known: {', '.join(known)}")


def one(query: MultiMapping[str], name: str) -> str | None:
    """Return the one value of a parameter, None if it is not there; raises Refused `repeated_parameter`."""
    values = query.getall(name, ())
    if len(values) > 1:
        raise Refused("repeated_parameter", f"{name} may be there once")
    return values[0] if values else None


def write_cursor(listing: str, before: int) -> str:
    """Return the cursor for the rows below row `before` of a list."""
    return base64.urlsafe_b64encode(f"{listing}:{before}".encode()).rstrip(b"=").decode()


def read_cursor(listing: str, cursor: str) -> int:
    """Return the row below which the page begins; raises Refused `malformed_cursor`."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        before = int(text.removeprefix(f"{listing}:"))
        # Only a cursor that `write_cursor` makes: int() alone accepts signs, spaces and underscores.
        if len(cursor) <= CURSOR_CHARS and 0 < before <= _MOST and write_cursor(listing, before) == cursor:
            return before
    except (ValueError, binascii.Error):
        pass
    raise Refused("malformed_cursor", "send a cursor as it was given in next_cursor, or none to begin at the top")


def _limit(text: str | None, most: int = PAGE) -> int:
    if text is None:
        return DEFAULT_PAGE
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most:
        return int(text)
    raise Refused("malformed_limit", f"limit must be 1 to {most}")


def _is_seq(text: str) -> bool:
    """Say whether `text` is the first seq of a page as `next_cursor` has it: decimal, without leading zeros."""
    return text.isascii() and text.isdigit() and len(text) <= len(str(LIMITS.max_count)) and text[0] != "0"
