"""The ID of a request, X-Request-Id: the client's own if it sends a fit one, else ours."""

import re
from typing import Final

from multidict import istr

X_REQUEST_ID: Final = istr("X-Request-Id")
REQUEST_ID_CHARS: Final = 64
REQUEST_ID_PATTERN: Final = rf"^[A-Za-z0-9._-]{{1,{REQUEST_ID_CHARS}}}$"
is_fit: Final = re.compile(rf"{REQUEST_ID_PATTERN[:-1]}\Z").match
"""Says whether a client's ID is taken over: it goes into a header, JSON and logs as it is. Another one is ignored."""
