"""Pseudonyms: what stands in place of a user's ID once the user was forgotten. Nobody can compute them from the ID."""

import base64
import re
import secrets
from typing import Final

_CHARS: Final = 26
"""Of base 32: 128 bits and two more."""
_matches: Final = re.compile(rf"gone-.{{{_CHARS}}}\Z").match


def new_pseudonym() -> str:
    """Return a new random pseudonym of 31 characters, `gone-` first; it has the form of a user ID."""
    return "gone-" + base64.b32encode(secrets.token_bytes(17)).decode().lower()[:_CHARS]


def is_pseudonym(text: str) -> bool:
    """Say whether `text` has the form of a pseudonym, as schema/wallet.sql knows it; no token may name one."""
    return _matches(text) is not None
