"""What may stand in a text that a user writes for others to read: a greeting, a password."""

import re
from typing import Final

# C0 and C1 controls (NUL among them), line and paragraph separators, and the marks that turn the direction of writing,
# with which a text can be made to read as another. Joiners stay: emoji need them.
_UNWANTED: Final = r"\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069"
TEXT_PATTERN: Final = rf"^[^{_UNWANTED}]*$"
"""As the OpenAPI document has it. Lone surrogates, which no pattern can name, are refused, too."""
_unwanted = re.compile(rf"[{_UNWANTED}\ud800-\udfff]").search


def is_one_line(text: str) -> bool:
    """Say whether `text` is one line without control characters."""
    return _unwanted(text) is None
