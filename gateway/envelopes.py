"""The handlers of `/v1/envelopes`: create, open, grab, detail, cancel."""

from aiohttp import hdrs

from envelope.errors import Unavailable
from gateway.http.answer import Answer
from gateway.http.body import read_body
from gateway.http.request import Request
from gateway.identity.shares import Shares
from gateway.identity.tokens import Tokens
from gateway.limits import CANDIDATE_IDS, ID_CACHE
from gateway.outcomes import outcome_answer
from gateway.reading.asks import NO_ASK, X_SHARE_TOKEN, idempotency_key_of, read_ask, share_token_of
from gateway.reading.calendar import Calendar
from gateway.reading.terms import fingerprint, read_terms
from gateway.sets import Sets
from runtime.clock import Clock
from sharding.ids import candidate_ids, parse_id
from sharding.slots import place_for
from wire.messages import Op
from wire.orders import create_key

_CREATE, _OPEN, _GRAB, _DETAIL, _CANCEL = map(int, (Op.CREATE, Op.OPEN, Op.GRAB, Op.DETAIL, Op.CANCEL))
"""Plain numbers: members of an enumeration are slow to look up and slow to encode."""
_REPLAYED = b"Idempotency-Replayed: true\r\n"


class Envelopes:
    """One method per route: takes the request and the ID as the client wrote it. Errors are mapped by `front`."""

    def __init__(
        self, tokens: Tokens, shares: Shares, sets: Sets, clock: Clock, *, slot_key: str, share_key: str
    ) -> None:
        self._user_of = tokens.user_of
        self._shares = shares
        self._sets = sets
        self._clock = clock
        self._calendar = Calendar(clock)
        self._ids: dict[str, int] = {}
        self._slot_key = slot_key.encode()
        self._share_key = share_key

    async def create(self, request: Request, _: str) -> Answer:
        """Make an envelope, once per (sender, Idempotency-Key), however often this is asked."""
        user = self._user_of(request.headers.get(hdrs.AUTHORIZATION))
        key, body = idempotency_key_of(request), await read_body(request)
        now_ms = self._clock.now_ms()
        terms = read_terms(body, now_ms)
        candidates = self._candidates(user, key, now_ms)
        marks = (user, create_key(user, key), fingerprint(terms, self._share_key))
        replayed, first, view = await self._sets.call(candidates[0], _CREATE, *marks, candidates, terms)
        if view is None:
            # Begun before its database moved: the first attempt's envelope is where its ID says.
            replayed, first, view = await self._sets.call(first, _CREATE, *marks, [first], terms)
        if view is None:
            raise Unavailable("wrong_set", "two SETs think that the other has it; repeat", outcome_known=False)
        return Answer(201, self._with_token(view, first), headers=_REPLAYED if replayed else b"")

    async def open(self, request: Request, text: str) -> Answer:
        """Claim a share."""
        headers = request.headers
        user = self._user_of(headers.get(hdrs.AUTHORIZATION))
        envelope_id = self._ids.get(text) or self._read_id(text)
        ask = NO_ASK if request.empty else await read_ask(request)
        token_ok = self._shares.holds(envelope_id, ask.share_token or headers.get(X_SHARE_TOKEN))
        values = await self._sets.call(envelope_id, _OPEN, envelope_id, user, token_ok, ask.password)
        return outcome_answer(values)

    async def grab(self, request: Request, text: str) -> Answer:
        """Ask whether a share could be opened; nothing is written."""
        headers = request.headers
        user = self._user_of(headers.get(hdrs.AUTHORIZATION))
        envelope_id = self._ids.get(text) or self._read_id(text)
        ask = NO_ASK if request.empty else await read_ask(request)
        token_ok = self._shares.holds(envelope_id, ask.share_token or headers.get(X_SHARE_TOKEN))
        return outcome_answer(await self._sets.call(envelope_id, _GRAB, envelope_id, user, token_ok))

    async def detail(self, request: Request, text: str) -> Answer:
        """Show an envelope to those who may see it."""
        user = self._user_of(request.headers.get(hdrs.AUTHORIZATION))
        envelope_id = self._ids.get(text) or self._read_id(text)
        token_ok = self._shares.holds(envelope_id, share_token_of(request))
        view, own = await self._sets.call(envelope_id, _DETAIL, envelope_id, user, token_ok)
        return Answer(200, self._with_token(view, envelope_id) if own else view)

    async def cancel(self, request: Request, text: str) -> Answer:
        """Close the sender's own envelope now; what is left goes back to him."""
        user = self._user_of(request.headers.get(hdrs.AUTHORIZATION))
        envelope_id = self._ids.get(text) or self._read_id(text)
        view, own = await self._sets.call(envelope_id, _CANCEL, envelope_id, user)
        return Answer(200, self._with_token(view, envelope_id) if own else view)

    def _read_id(self, text: str) -> int:
        topology = self._sets.topology
        envelope_id = parse_id(text, topology.layout)
        self._calendar.check(envelope_id, topology.zone)
        # A day that has come has come for ever, and which slots there are never changes.
        if len(self._ids) >= ID_CACHE:
            self._ids.clear()
        self._ids[text] = envelope_id
        return envelope_id

    def _candidates(self, user: str, key: str, now_ms: int) -> list[int]:
        """Return the IDs a create may get, in order: one slot for ever, and this second."""
        topology = self._sets.topology
        slot, tail = place_for(user, key, self._slot_key, topology.layout)
        return candidate_ids(self._calendar.first_id(topology.zone, now_ms), slot, tail, CANDIDATE_IDS)

    def _with_token(self, view: bytes, envelope_id: int) -> bytes:
        """Add the share token for the sender, as the last field of the SET's JSON: it is his to hand out."""
        return b'%b,"share_token":"%b"}' % (view[:-1], self._shares.token_of(envelope_id).encode())
