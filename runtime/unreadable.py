"""What a decoder raises where bytes are not what they should be: a damaged file, a stranger's message."""

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Catch all of it: msgspec raises UnicodeDecodeError for a text that is no UTF-8, and RecursionError for a value that
is nested too deeply; neither is an error of msgspec's own."""
