"""Request bodies: read with a bound and a deadline, decoded into typed structs, refused with a code and a sentence.

msgspec reports a refused field only as a sentence, from which the code is read. So pyproject.toml pins msgspec to the
minor version with these sentences (docs/decisions/0002-libraries.md); `test_terms` checks all of them.
"""

import asyncio
import difflib
import json
import re
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import hdrs, web

from errors import HongbaoError, Refused, Unavailable
from gateway.http.request import Request
from gateway.limits import BODY_BYTES, BODY_S, MAX_NAMES

T = TypeVar("T")

_CODES: Final = {"total_fen": "malformed_amount", "count": "malformed_count"}
"""Fields whose wrong type has a code of its own."""
_TYPES: Final = {
    "object": "an object", "array": "an array", "str": "a string", "bool": "true or false", "null": "null",
    "int": "a whole number", "float": "a number with a point or an exponent",
}  # fmt: skip
"""msgspec's names of the types of JSON, and ours."""
_byte = re.compile(r"\(byte (\d+)\)").search
_expected = re.compile(r"Expected `(.+?)`, got `(.+?)`").search
_field = re.compile(r"at `\$\.(.+?)`").search
_name_like = re.compile(rb'"([^"]*)"\s*:').finditer
_named = re.compile(r"field `(.*)`", re.DOTALL).search
_JSON = "application/json"
_ECHO_CHARS = 50
"""How much of a name that the client sent is repeated in the error."""
_NO_JSON: Final = (msgspec.DecodeError, ValueError, RecursionError)
"""What the decoder raises for bytes that are no JSON. ValueError: no UTF-8, or a number of too many digits."""


async def read_body(request: Request) -> bytes:
    """Return the whole body, empty if there is none; call it once per request.

    Raises Refused `body_too_large` (by Content-Length, without reading it), `unsupported_media_type`, `malformed_http`;
    Unavailable `body_timeout`; ConnectionError when the client has gone.
    """
    body = request.whole_body()
    if body is None:
        body = await _read_rest(request)
    elif body:
        _check_type(request)
    if len(body) > BODY_BYTES:
        raise _too_large()
    return body


async def _read_rest(request: Request) -> bytes:
    """Wait for the rest of the body and return all of it, or a little more than BODY_BYTES of a longer one."""
    if request.content_length > BODY_BYTES:
        raise _too_large()
    _check_type(request)
    expects = not request.http_1_0 and request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
    if request.transport is not None and expects:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while len(body) <= BODY_BYTES and (chunk := await request.content.readany()):
                body += chunk
    except TimeoutError:
        raise Unavailable("body_timeout", f"the body did not come within {BODY_S:.0f} seconds") from None
    except web.RequestPayloadError:
        raise Refused("malformed_http", "the body is not framed as its headers say") from None
    return bytes(body)


def _check_type(request: Request) -> None:
    given = request.headers.get(hdrs.CONTENT_TYPE, "")
    if given == _JSON and hdrs.CONTENT_ENCODING not in request.headers:
        return
    kind, _, parameters = given.partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower()
    # Nothing is inflated: a small body could become a large one.
    if kind.strip().lower() != _JSON or charset not in ("", "utf-8") or encoding != "identity":
        raise Refused(
            "unsupported_media_type", "send the body as Content-Type: application/json, UTF-8, not compressed"
        )


def decode(decoder: "msgspec.json.Decoder[T]", body: bytes, *, needed: int = 1) -> T:
    """Decode a body into a struct without nested objects. `needed`: how many fields are required, 1 if none is.

    Raises Refused: `malformed_json`, `duplicate_field`, `unknown_field`, `missing_field`, `wrong_type`,
    `malformed_amount`, `malformed_count`.
    """
    if not body:
        raise Refused("malformed_json", "the body is empty; send a JSON object")
    try:
        decoded = decoder.decode(body)
        # A colon follows each name, and the required names are all there: with only `needed` colons no name is there
        # twice.
        if body.count(b":") > needed:
            _check_names(body)
    except msgspec.ValidationError as error:
        _check_json(body)
        raise _refusal(str(error), decoder, body) from None
    except _NO_JSON as error:
        raise _malformed(error) from None
    return decoded


def _check_names(body: bytes) -> None:
    """Refuse a name that is there twice: JSON readers differ in which of its values counts.

    Without escapes, names that differ as bytes differ for every reader. A text that looks like a name (inside a string)
    only leads to the slow, exact check.
    """
    names = [found[1] for found in islice(_name_like(body), MAX_NAMES + 1)]
    if len(names) > MAX_NAMES:
        # Before the exact look, which would take milliseconds for a body that is nothing but names.
        raise Refused("duplicate_field", f"the body, texts included, has more than {MAX_NAMES} names; none here has")
    if len(set(names)) == len(names) and b"\\" not in body:
        return
    json.loads(body, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise Refused("duplicate_field", f"the field {name[:_ECHO_CHARS]!r} is there twice")
        names.add(name)


def _check_json(body: bytes) -> None:
    """Refuse as `malformed_json` a body that is no JSON behind its first wrong field, at which msgspec stops."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except _NO_JSON as error:
        raise _malformed(error) from None


def _malformed(error: Exception) -> Refused:
    at = _byte(str(error))
    return Refused("malformed_json", f"the body is not JSON in UTF-8{f', from byte {at[1]} on' if at else ''}")


def _refusal(message: str, decoder: "msgspec.json.Decoder[Any]", body: bytes) -> HongbaoError:
    """Turn msgspec's sentence into a refusal of ours."""
    named, expected, at = _named(message), _expected(message), _field(message)
    if named is not None:
        known = "missing" not in message
        name = named.group(1)[:_ECHO_CHARS]
        if known:
            return Refused("unknown_field", f"there is no field {name!r} here; {_meant(name, decoder, body)}")
        return Refused("missing_field", f"the field {name!r} is needed")
    field = at.group(1)[:_ECHO_CHARS] if at else "the body"
    code = _CODES.get(field, "wrong_type")
    if expected is None:
        return Refused(code, f"{field} is out of range")
    return Refused(code, f"{field} must be {_in_words(expected.group(1))}, not {_in_words(expected.group(2))}")


def _meant(name: str, decoder: "msgspec.json.Decoder[Any]", body: bytes) -> str:
    """Return the field that is spelled almost like `name`, else all that there are.

    One that is in the body as well is meant only if hardly a letter differs.
    """
    fields = [one.encode_name for one in msgspec.structs.fields(decoder.type)]
    missing = [one for one in fields if f'"{one}"'.encode() not in body]
    near = difflib.get_close_matches(name, missing, n=1) or difflib.get_close_matches(name, fields, n=1, cutoff=0.8)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(fields)}"


def _in_words(types: str) -> str:
    return " or ".join(_TYPES.get(one, one) for one in types.split(" | "))


def _too_large() -> Refused:
    return Refused("body_too_large", f"a body may have at most {BODY_BYTES} bytes")
