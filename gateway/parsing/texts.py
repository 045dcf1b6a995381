"""Texts that users write: greeting and password."""

from envelope.texts import is_one_line
from errors import Refused


def check_text(text: str, *, name: str, most: int, code: str, least: int = 0) -> str:
    """Return `text`; raises Refused: `code` unless it has `least` to `most` characters, or `control_character`."""
    if not least <= len(text) <= most:
        raise Refused(code, f"{name} must have {least} to {most} characters, not {len(text)}")
    if not is_one_line(text):
        raise Refused("control_character", f"{name} must be one line without control characters")
    return text
