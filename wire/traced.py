"""Traces across links: the context that calls of this task are sent with, and replies that end a span.

A chosen call is announced by a notice (`Op.TRACED`) in the same frame, to an end that has the capability
(`wire.versions.TRACES`). Calls that are not chosen travel as they always did: no byte more, and no look at a header.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from errors import HongbaoError
from runtime.traces.context import TraceContext, unpacked
from runtime.traces.span import Kind, Span, Tracer

SENT_WITH: Final[ContextVar[bytes | None]] = ContextVar("sent_with", default=None)
"""The packed context of the span that calls of this task belong to; None for almost all."""


class ReplyTo(Protocol):
    """Where replies go (`wire.server.Caller`)."""

    name: str

    def reply(self, number: int, *values: Any) -> None:
        """Reply to request `number`."""

    def fail(self, number: int, error: BaseException) -> None:
        """Reply to request `number` with an error."""


class Announced(ReplyTo, Protocol):
    """A caller that may have announced a traced call."""

    trace: tuple[int, bytes] | None
    """The call that was announced last, and its context; None once it was taken."""


class TracedReply:
    """Passes the reply to a traced request on, and ends the request's span with it. `ended` is called then, once."""

    __slots__ = ("_caller", "_ended", "_tracer", "decided_ns", "name", "span")

    def __init__(
        self, caller: ReplyTo, span: Span, tracer: Tracer, ended: Callable[["TracedReply"], None] | None = None
    ) -> None:
        self.name = caller.name
        self.span = span
        self.decided_ns = 0
        """When the request was decided last; 0 before."""
        self._caller = caller
        self._tracer = tracer
        self._ended = ended

    def reply(self, number: int, *values: Any) -> None:
        """Reply to request `number`."""
        self._caller.reply(number, *values)
        self.end()

    def fail(self, number: int, error: BaseException) -> None:
        """Reply to request `number` with an error."""
        self._caller.fail(number, error)
        self.end(error)

    @contextmanager
    def ended_by_an_error(self) -> Iterator[None]:
        """End the span if the block raises: then nothing was begun, and whoever catches it replies."""
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise

    def end(self, error: BaseException | None = None) -> None:
        """End the span, unless it has ended."""
        ended, self._ended = self._ended, None
        if not self.span.ended_ns:
            self._tracer.end(self.span, code_of(error))
        if ended is not None:
            ended(self)


@contextmanager
def sent_with(span: Span) -> Iterator[None]:
    """Send the calls of the block, and of the tasks that it begins, as belonging to a span."""
    token = SENT_WITH.set(span.context.packed)
    try:
        yield
    finally:
        SENT_WITH.reset(token)


def take(caller: Announced, number: int) -> TraceContext | None:
    """Return the context of request `number` if it was announced as traced."""
    announced, caller.trace = caller.trace, None
    return unpacked(announced[1]) if announced is not None and announced[0] == number else None


def serve(
    tracer: Tracer,
    caller: ReplyTo,
    number: int,
    name: str,
    parent: TraceContext,
    ended: Callable[[TracedReply], None] | None = None,
) -> TracedReply:
    """Begin the span of a request that came over a link; it ends with the reply."""
    span = tracer.begin(name, Kind.SERVER, parent, time.time_ns())
    span.attributes["hongbao.call"] = f"{caller.name}-{number}"
    return TracedReply(caller, span, tracer, ended)


def code_of(error: BaseException | None) -> str:
    """Return the code of an error for a span; "" if there is none."""
    if error is None:
        return ""
    return error.code if isinstance(error, HongbaoError) else type(error).__name__
