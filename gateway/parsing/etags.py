"""Entity tags (RFC 9110): the version of a detail in ETag, and those that a client has in If-None-Match."""

import re
from typing import Final

from gateway.http.request import Request
from gateway.limits import ETAGS

IF_NONE_MATCH: Final = "If-None-Match"
_NOTHING: Final[list[str]] = []
_tags = re.compile(r'(?:W/)?"([!#-~]{0,64})"').findall


def known_versions(request: Request) -> list[str]:
    """Return the versions that the client has, the first ETAGS of them; `*` stands for any.

    What is no tag is passed over: the client is then answered in full.
    """
    given = request.headers.getall(IF_NONE_MATCH, _NOTHING)
    if not given:
        return _NOTHING
    if "*" in given:
        return ["*"]
    found: list[str] = _tags(",".join(given))
    # In quotes the star is a tag like any other, which we never gave.
    return [one for one in found[:ETAGS] if one != "*"]


def etag(version: str) -> bytes:
    """Return the header line; weak, because proxies compress the body on the way."""
    return b'ETag: W/"%b"\r\n' % version.encode()
