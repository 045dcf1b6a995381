"""The spans of this server: of requests that a gateway has chosen, of their wait, their commit and their payout."""

import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager

from envelope.decide import Answer
from envelope.outcomes import Outcome
from runtime.traces.context import TraceContext
from runtime.traces.limits import LIVE_SPANS
from runtime.traces.span import Kind, Span, Tracer
from setnode.actors.actor import Actor
from setnode.actors.batch import ClaimBatch
from setnode.actors.request import Action, Request
from wire.messages import Op
from wire.server import Caller
from wire.traced import TracedReply, code_of, sent_with, serve, take


class Traces:
    """What is traced here now. Empty but for chosen requests, so that whoever finds `live` empty looks no further."""

    def __init__(self, tracer: Tracer, set_name: str) -> None:
        self.live: dict[int, int] = {}
        """How many traced requests wait, by envelope."""
        self._tracer = tracer
        self._set = set_name
        self._envelopes: dict[TracedReply, int] = {}

    def begin(self, caller: Caller, number: int, op: int, envelope_id: int) -> TracedReply | None:
        """Begin the span of a request that its caller has announced; None if it is not traced."""
        parent = take(caller, number)
        if parent is None or len(self._envelopes) >= LIVE_SPANS:
            return None
        reply = serve(self._tracer, caller, number, f"setnode {Op(op).name}", parent, self._ended)
        reply.span.attributes.update({"hongbao.envelope_id": str(envelope_id), "hongbao.set": self._set})
        self._envelopes[reply] = envelope_id
        self.live[envelope_id] = self.live.get(envelope_id, 0) + 1
        return reply

    def decided(self, actor: Actor, batch: ClaimBatch) -> None:
        """Note the traced requests that a batch has just decided, and how long they waited for it."""
        now = time.time_ns()
        for request in actor.decided or ():
            reply = request.caller
            if isinstance(reply, TracedReply):
                waited = self._tracer.begin("wait", Kind.INTERNAL, reply.span.context, reply.span.began_ns)
                self._tracer.end(waited)
                reply.decided_ns = now
                if _writes(request):
                    batch.traced = [*batch.traced, reply]

    def committed(
        self, batch: ClaimBatch, refused: Container[int] = (), error: BaseException | None = None
    ) -> Sequence[TraceContext]:
        """End the commits of a batch's traced requests, or fail them; returns the spans that payouts belong to.

        `refused` are envelopes of which nothing was written.
        """
        ended: list[TraceContext] = []
        for reply in batch.traced:
            span = self._tracer.begin("commit", Kind.CLIENT, reply.span.context, reply.decided_ns)
            span.attributes.update({"db.system.name": "postgresql", "hongbao.rows": len(batch)})
            lost = self._envelopes.get(reply) in refused
            self._tracer.end(span, "conflict" if lost else code_of(error))
            if not lost:
                ended.append(span.context)
        return ended

    @contextmanager
    def payout(self, traced: Sequence[TraceContext], orders: int) -> Iterator[None]:
        """Trace the block, a call to the wallet that pays `orders`, some of them for the claims of `traced`.

        Each of these traces gets a span. The call carries that of the first, to which those of the others are linked.
        """
        spans: list[Span] = []
        for parent in traced:
            links = (spans[0].context,) if spans else ()
            span = self._tracer.begin("payout", Kind.CLIENT, parent, links=links)
            span.attributes["hongbao.orders"] = orders
            spans.append(span)
        error: BaseException | None = None
        try:
            with sent_with(spans[0]):
                yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            for span in spans:
                self._tracer.end(span, code_of(error))

    def _ended(self, reply: TracedReply) -> None:
        envelope_id = self._envelopes.pop(reply)
        left = self.live[envelope_id] - 1
        if left:
            self.live[envelope_id] = left
        else:
            del self.live[envelope_id]


def _writes(request: Request) -> bool:
    decision = request.decision
    return request.action is Action.CANCEL or (isinstance(decision, Answer) and decision.outcome is Outcome.OPENED)
