"""User IDs: what may stand in a token's `sub` and in `to`."""

import re
from typing import Final

from envelope.limits import LIMITS
from envelope.pseudonyms import is_pseudonym
from errors import Refused

USER_PATTERN: Final = rf"^[A-Za-z0-9][A-Za-z0-9._@-]{{0,{LIMITS.user_id_chars - 1}}}$"
"""Visible ASCII that needs no quoting in JSON, URLs, logs or account names; holds a UUID with a prefix."""
_matches = re.compile(rf"{USER_PATTERN[:-1]}\Z").match


def is_user(text: object) -> bool:
    """Say whether `text` is a well-formed user ID; whether the user exists is not checked.

    Pseudonyms of users who were forgotten are none: nobody can be such a user, or invite one.
    """
    return isinstance(text, str) and _matches(text) is not None and not is_pseudonym(text)


def check_user(text: str) -> str:
    """Return `text`; raises Refused `malformed_user` if it is no well-formed user ID."""
    if not is_user(text):
        raise Refused(
            "malformed_user",
            f"{text[:50]!r} is not a user ID: 1 to {LIMITS.user_id_chars} letters, digits or . _ @ -, "
            "beginning with a letter or digit, and no pseudonym of one who was forgotten",
        )
    return text
