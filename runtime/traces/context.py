"""Which trace and span a call belongs to: as the header `traceparent`, and as the bytes that travel on links."""

import random
import re
from typing import Final, NamedTuple

TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8
PACKED_BYTES: Final = TRACE_BYTES + SPAN_BYTES + 2
"""Trace, span, version and flags."""
_SAMPLED: Final = 1
_VERSION_AND_FLAGS: Final = bytes((0, _SAMPLED))
_NO_SPAN: Final = bytes(SPAN_BYTES)
_header: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII).fullmatch
_FORBIDDEN_VERSION: Final = "ff"


class TraceContext(NamedTuple):
    """A span as those see it whose parent it is. `span_id` is empty for a trace that has no span yet."""

    trace_id: bytes
    span_id: bytes = b""

    @property
    def packed(self) -> bytes:
        """The context as PACKED_BYTES, for a link."""
        return b"%b%b%b" % (self.trace_id, self.span_id or _NO_SPAN, _VERSION_AND_FLAGS)


def unpacked(packed: object) -> TraceContext | None:
    """Read what `TraceContext.packed` has written; None if it is nothing of the kind."""
    if not isinstance(packed, bytes) or len(packed) < PACKED_BYTES:
        return None
    return TraceContext(packed[:TRACE_BYTES], packed[TRACE_BYTES : TRACE_BYTES + SPAN_BYTES])


def new_trace() -> TraceContext:
    """Return the context of a trace that begins here."""
    return TraceContext(random.randbytes(TRACE_BYTES))  # noqa: S311 - a name, no secret


def new_span_id() -> bytes:
    """Return the name of a span: it only has to differ from those of its trace."""
    return random.randbytes(SPAN_BYTES)  # noqa: S311 - a name, no secret


def read_traceparent(header: str) -> tuple[TraceContext, bool] | None:
    """Read `traceparent` (W3C Trace Context): the caller's span, and whether it is recorded; None if malformed."""
    found = _header(header)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == _FORBIDDEN_VERSION or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
        return None
    return TraceContext(bytes.fromhex(trace), bytes.fromhex(span)), bool(int(flags, 16) & _SAMPLED)
