"""Signatures of Standard Webhooks, version 1: HMAC-SHA256 over `id.timestamp.body`."""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable

from errors import Refused
from events.register import SECRET_PREFIX

LEAST, MOST = 24, 64
"""Bytes of a secret, by the specification."""


def key_of(secret: str) -> bytes:
    """Return the key that a secret stands for; raises Refused `secret_invalid`."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not LEAST <= len(key) <= MOST:
        raise Refused(
            "secret_invalid",
            f"a secret is {SECRET_PREFIX} and base64 of {LEAST} to {MOST} random bytes; leave it out to get one",
        )
    return key


def signature(keys: Iterable[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`: one signature for each key, so that a receiver may know either."""
    text = f"{message_id}.{timestamp}.".encode() + body
    return " ".join("v1," + b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode() for key in keys)
