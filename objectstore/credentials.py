"""Who we are to an object store, and where it is: the standard AWS_* variables, each also as a file.

`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` may stand in the environment, or be read from the
files that `AWS_ACCESS_KEY_ID_FILE` and so on name; a file that is written anew is read again. Without any, the client
asks as it does on a cloud's own machines: a web identity (`AWS_WEB_IDENTITY_TOKEN_FILE` with `AWS_ROLE_ARN`), a
container's or a machine's role.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from errors import Refused
from runtime.settings import is_loopback

KEY_ID, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
ALLOW_HTTP: Final = "AWS_ALLOW_HTTP"
_READ: Final = {KEY_ID: "access_key_id", SECRET: "secret_access_key", TOKEN: "session_token"}
INHERITED: Final = (
    *_READ, *(f"{name}_FILE" for name in _READ), *ENDPOINTS, *REGIONS, ALLOW_HTTP, "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_ENDPOINT_URL_STS", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_METADATA_ENDPOINT",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
)  # fmt: skip
"""All variables that say how an object store is reached: what a process that reads one is given of an environment."""


def settings(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the client's settings; raises Refused `bucket_credentials`."""
    source = os.environ if environ is None else environ
    found: dict[str, str] = {}
    for name, field in _READ.items():
        if value := source.get(name) or _content(f"{name}_FILE", source):
            found[field] = value
    if ("access_key_id" in found) != ("secret_access_key" in found):
        raise Refused("bucket_credentials", f"set both {KEY_ID} and {SECRET} (or {KEY_ID}_FILE …), or none of them")
    # Without a region the protocol's signature cannot be made; stores that have none take any.
    found["region"] = next((source[name] for name in REGIONS if source.get(name)), "us-east-1")
    for field, value in found.items():
        if not value.isascii() or not value.isprintable() or (field == "region" and " " in value):
            text = f"{field} has a character that none has, such as the end of a line: write it anew"
            raise Refused("bucket_credentials", text)
    if endpoint := next((source[name] for name in ENDPOINTS if source.get(name)), ""):
        _check(endpoint, source)
        found["endpoint"] = endpoint
    return found


def stamp(environ: Mapping[str, str] | None = None) -> tuple[tuple[int, int, int] | None, ...]:
    """Return what changes when one of the files is written anew; None for one that is not there, or not named."""
    source = os.environ if environ is None else environ
    return tuple(_stamp_of(source.get(f"{name}_FILE")) for name in _READ)


def given(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of INHERITED that are set."""
    source = os.environ if environ is None else environ
    return {name: source[name] for name in INHERITED if source.get(name)}


def _check(endpoint: str, source: Mapping[str, str]) -> None:
    """Refuse an endpoint that would carry an archive readable over a network, unless that is said to be wanted."""
    scheme, _, rest = endpoint.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if not _is_address(endpoint):
        name = ""
    if scheme == "https" and name:
        return
    if scheme != "http" or not name:
        raise Refused("bucket_credentials", "AWS_ENDPOINT_URL is no address like https://store.example:9000")
    if not is_loopback(name) and source.get(ALLOW_HTTP, "").lower() not in ("1", "true"):
        raise Refused(
            "bucket_credentials",
            f"AWS_ENDPOINT_URL is plain http to {name}, which anybody on the way could read and change: use https, or "
            f"set {ALLOW_HTTP}=true where the network is your own",
        )


def _is_address(endpoint: str) -> bool:
    try:
        return urlsplit(endpoint).port != 0
    except ValueError:  # of a port above 65535, or a bracket that is not closed
        return False


def _stamp_of(path: str | None) -> tuple[int, int, int] | None:
    if not path:
        return None
    try:
        stat = os.stat(path)  # noqa: PTH116 - as little as possible, with each request
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _content(name: str, source: Mapping[str, str]) -> str:
    if not source.get(name):
        return ""
    try:
        return Path(source[name]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise Refused("bucket_credentials", f"{name} names a file that cannot be read: {reason}") from None
