"""Texts that users write: greeting and password."""

import re
from typing import Final

from errors import Refused

# C0 and C1 controls (NUL among them), line and paragraph separators, and the marks that turn the direction of writing,
# with which a text can be made to read as another. Joiners stay: emoji need them.
_UNWANTED: Final = r"\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069"
TEXT_PATTERN: Final = rf"^[^{_UNWANTED}]*$"
"""As the OpenAPI document has it. Lone surrogates, which no pattern can name, are refused, too."""
_unwanted = re.compile(rf"[{_UNWANTED}\ud800-\udfff]").search


def check_text(text: str, *, name: str, most: int, code: str, least: int = 0) -> str:
    """Return `text`; raises Refused: `code` unless it has `least` to `most` characters, or `control_character`."""
    if not least <= len(text) <= most:
        raise Refused(code, f"{name} must have {least} to {most} characters, not {len(text)}")
    if _unwanted(text):
        raise Refused("control_character", f"{name} must be one line without control characters")
    return text
