"""The smaller inputs: the optional body of open and grab, share token, Idempotency-Key, and the list `role`."""

import re
from typing import Final

import msgspec
from aiohttp import hdrs
from multidict import istr

from envelope.limits import LIMITS
from errors import Refused
from gateway.http.body import decode, read_body
from gateway.http.request import Request
from gateway.parsing.texts import check_text
from sharding.ids import FIRST_YEAR, LAST_YEAR

X_SHARE_TOKEN: Final = istr("X-Share-Token")
IDEMPOTENCY_KEY: Final = istr("Idempotency-Key")
KEY_PATTERN: Final = rf"^[!-~]{{1,{LIMITS.idempotency_key_chars}}}$"
"""Visible ASCII characters."""
WAITING: Final = "waiting"
YEARS: Final = range(FIRST_YEAR, LAST_YEAR + 1)
ROLES: Final = ("sent", "received", WAITING)
"""Values of the query parameter `role`: which envelopes of the user `GET /v1/me/envelopes` lists."""
_is_key = re.compile(rf"{KEY_PATTERN[:-1]}\Z").match


class OpenBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The body of open and grab. null is the same as not there."""

    share_token: str | None = None
    password: str | None = None


EMPTY_BODY: Final = OpenBody()
_decoder = msgspec.json.Decoder(OpenBody)


async def read_open_body(request: Request) -> OpenBody:
    """Return the body, or EMPTY_BODY if there is none.

    A password of impossible length is refused here, so that it does not count as a wrong try. Raises Refused: see
    `read_body`, `decode` and `check_text`.
    """
    body = await read_body(request)
    if not body:
        return EMPTY_BODY
    ask = decode(_decoder, body)
    if ask.password is not None:
        check_text(ask.password, name="password", least=1, most=LIMITS.password_chars, code="password_length")
    return ask


def share_token_of(request: Request) -> str | None:
    """Return the share token of the header or, for GET and HEAD, of the query, where a shared link has it."""
    given = request.headers.get(X_SHARE_TOKEN)
    if given is None and request.method != hdrs.METH_POST:
        return request.url.query.get("share_token")
    return given


def read_year(text: str | None) -> int:
    """Return the year of a query; raises Refused `malformed_year`."""
    if text is not None and len(text) == len(str(FIRST_YEAR)) and text.isascii() and text.isdigit():
        year = int(text)
        if year in YEARS:
            return year
    raise Refused("malformed_year", f"year must be one of {FIRST_YEAR} to {LAST_YEAR}, in four digits")


def idempotency_key_of(request: Request) -> str:
    """Return the key; raises Refused `idempotency_key_missing` or `malformed_idempotency_key`."""
    given = request.headers.getall(IDEMPOTENCY_KEY, ())
    if not given:
        raise Refused("idempotency_key_missing", "send an Idempotency-Key: a new one for every new envelope")
    if len(given) > 1 or not _is_key(given[0]):
        raise Refused(
            "malformed_idempotency_key",
            f"send one Idempotency-Key of 1 to {LIMITS.idempotency_key_chars} visible ASCII characters",
        )
    return str(given[0])
