"""What the other calls carry: the optional body of open and grab, the share token, the Idempotency-Key."""

import re
from typing import Final

import msgspec
from aiohttp import hdrs
from multidict import istr

from envelope.errors import Refused
from envelope.limits import LIMITS
from gateway.http.body import decode, read_body
from gateway.http.request import Request
from gateway.reading.texts import check_text

X_SHARE_TOKEN: Final = istr("X-Share-Token")
IDEMPOTENCY_KEY: Final = istr("Idempotency-Key")
KEY_PATTERN: Final = rf"^[!-~]{{1,{LIMITS.idempotency_key_chars}}}$"
"""Visible ASCII characters."""
_is_key = re.compile(rf"{KEY_PATTERN[:-1]}\Z").match


class Ask(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The body of open and grab. null is the same as not there."""

    share_token: str | None = None
    password: str | None = None


NO_ASK: Final = Ask()
_decoder = msgspec.json.Decoder(Ask)


async def read_ask(request: Request) -> Ask:
    """Return the body; where there is none, nothing was asked for. A password that cannot be right costs no try."""
    body = await read_body(request)
    if not body:
        return NO_ASK
    ask = decode(_decoder, body)
    if ask.password is not None:
        check_text(ask.password, name="password", least=1, most=LIMITS.password_chars, code="password_length")
    return ask


def share_token_of(request: Request) -> str | None:
    """Return the token of the header, or of a GET's query (a link that was shared)."""
    given = request.headers.get(X_SHARE_TOKEN)
    if given is None and request.method != hdrs.METH_POST:
        return request.url.query.get("share_token")
    return given


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
