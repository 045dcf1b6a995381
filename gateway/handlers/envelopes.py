"""Step 4 of a request, for `/v1/envelopes`: create, open, grab, detail, cancel.

Each handler reads downwards: who asks (`identity`), for which envelope, with what (`parsing`), the call to its SET
(`sets`), the answer (`outcomes`).
"""

from errors import Unavailable
from gateway.admission.priority import Promises
from gateway.handlers.outcomes import is_openable, outcome_answer
from gateway.handlers.targets import Targets
from gateway.http.answer import Answer, Bodiless
from gateway.http.body import read_body
from gateway.http.request import Request
from gateway.identity.rates import Kind, Rates
from gateway.identity.share_tokens import ShareTokens
from gateway.identity.tokens import Tokens
from gateway.limits import CANDIDATE_IDS
from gateway.parsing.calendar import Calendar
from gateway.parsing.etags import etag, known_versions
from gateway.parsing.paging import read_claims_page
from gateway.parsing.parameters import EMPTY_BODY, X_SHARE_TOKEN, idempotency_key_of, read_open_body, share_token_of
from gateway.parsing.terms import fingerprint, read_terms
from gateway.resources import Resource
from gateway.sets.calls import Sets
from gateway.sets.target import Target
from runtime.clock import Clock
from sharding.ids import candidate_ids
from sharding.slots import place_for
from switches.switch import Closes
from switches.switchboard import Switchboard
from wire.messages import Op
from wire.orders import create_key

_REPLAYED = b"Idempotency-Replayed: true\r\n"


class EnvelopeHandlers:
    """One method per operation. `gateway.dispatch` turns the errors they raise into problems."""

    def __init__(
        self,
        tokens: Tokens,
        rates: Rates,
        share_tokens: ShareTokens,
        sets: Sets,
        clock: Clock,
        calendar: Calendar,
        *,
        promises: Promises,
        switches: Switchboard,
        slot_key: str,
        share_key: str,
    ) -> None:
        self._creator_of = rates.guard(Kind.CREATE, tokens.user_of)
        self._opener_of = rates.guard(Kind.OPEN, tokens.user_of)
        self._grabber_of = rates.guard(Kind.GRAB, tokens.user_of)
        self._viewer_of = rates.guard(Kind.VIEW, tokens.user_of)
        self._canceler_of = rates.guard(Kind.CANCEL, tokens.user_of)
        self._check_open = rates.check_open
        self._share_tokens = share_tokens
        self._sets = sets
        self._clock = clock
        self._calendar = calendar
        self._targets = Targets(sets, calendar, share_tokens)
        self._promises = promises
        self._switches = switches
        self._slot_key = slot_key.encode()
        self._share_key = share_key

    async def create(self, request: Request, resource: Resource) -> Answer:
        """Make an envelope, once per (sender, Idempotency-Key), however often the request is repeated.

        201 is sent once its money is in escrow and its header is committed.
        """
        del resource
        user = self._creator_of(request.authorization)
        key, body = idempotency_key_of(request), await read_body(request)
        now_ms = self._clock.now_ms()
        terms = read_terms(body, now_ms)
        candidates = self._candidates(user, key, now_ms)
        self._switches.check(Closes.CREATES, candidates[0])
        identity = (user, create_key(user, key), fingerprint(terms, self._share_key))
        target = Target(candidates[0])
        replayed, made_id, view, *_ = await self._sets.call(target, Op.CREATE, *identity, candidates, terms)
        if view is None:
            # An earlier attempt, before the database moved, has taken this ID: the create goes to the SET that has it.
            target = Target(made_id)
            replayed, made_id, view, *_ = await self._sets.call(target, Op.CREATE, *identity, [made_id], terms)
        if view is None:
            raise Unavailable("wrong_set", "two SETs disagree which has the envelope; repeat", outcome_known=False)
        return Answer(201, self._with_share_token(view, made_id), headers=_REPLAYED if replayed else b"")

    async def open(self, request: Request, resource: Resource) -> Answer:
        """Claim a share; a win is answered after its commit."""
        user = self._opener_of(request.authorization)
        target, token_ok, password = await self._asked(request, resource)
        if self._check_open is not None:
            self._check_open(user, target.envelope_id)
        if self._switches.closed:
            self._switches.check(Closes.OPENS, target.envelope_id)
        return outcome_answer(await self._sets.call(target, Op.OPEN, target.envelope_id, user, token_ok, password))

    async def grab(self, request: Request, resource: Resource) -> Answer:
        """Say whether the user could open a share now; nothing is written."""
        user = self._grabber_of(request.authorization)
        target, token_ok, _ = await self._asked(request, resource)
        self._switches.check(Closes.GRABS, target.envelope_id)
        values = await self._sets.call(target, Op.GRAB, target.envelope_id, user, token_ok)
        if is_openable(values):
            # Their open goes first when too many come (`gateway.admission.priority`).
            self._promises.note(user, resource.id_text)
        return outcome_answer(values)

    async def detail(self, request: Request, resource: Resource) -> Answer:
        """Show an envelope, with a page of its claims, to those who may see it."""
        user = self._viewer_of(request.authorization)
        first, limit = read_claims_page(request)
        target = resource.target or self._target(resource)
        token_ok = resource.shared or self._share_tokens.is_valid(target.envelope_id, share_token_of(request))
        args = target.envelope_id, user, token_ok, first, limit, known_versions(request)
        view, own, version, *_ = await self._sets.call(target, Op.DETAIL, *args)
        if view is None:
            return Bodiless(304, b"", headers=etag(version))
        body = self._with_share_token(view, target.envelope_id) if own else view
        return Answer(200, body, headers=etag(version))

    async def cancel(self, request: Request, resource: Resource) -> Answer:
        """Close the sender's own envelope now; what is left is refunded."""
        user = self._canceler_of(request.authorization)
        target = resource.target or self._target(resource)
        view, own, *_ = await self._sets.call(target, Op.CANCEL, target.envelope_id, user)
        return Answer(200, self._with_share_token(view, target.envelope_id) if own else view)

    async def _asked(self, request: Request, resource: Resource) -> tuple[Target, bool, str | None]:
        """Return which envelope is asked for, whether the share token is right, and the password that was given."""
        headers = request.headers
        target = resource.target or self._target(resource)
        body = EMPTY_BODY if request.empty else await read_open_body(request)
        given = body.share_token or headers.get(X_SHARE_TOKEN)
        token_ok = resource.shared or self._share_tokens.is_valid(target.envelope_id, given)
        return target, token_ok, body.password

    def _target(self, resource: Resource) -> Target:
        """Read the ID or share ID in the path; raises Refused with the code of what is wrong with it."""
        target, resource.shared = self._targets.read(resource.id_text)
        # Valid for ever: a day that has begun stays begun, and the number of slots never changes.
        resource.target = target
        return target

    def _candidates(self, user: str, key: str, now_ms: int) -> list[int]:
        """Return the IDs that a create may get, best first: all of this second and of the slot of the key."""
        topology = self._sets.topology
        slot, tail = place_for(user, key, self._slot_key, topology.layout)
        return candidate_ids(self._calendar.first_id(topology.zone, now_ms), slot, tail, CANDIDATE_IDS)

    def _with_share_token(self, view: bytes, envelope_id: int) -> bytes:
        """Add share token and share ID to the SET's JSON object; only for the sender, who alone may hand them out."""
        tokens = self._share_tokens
        token, share_id = tokens.token_of(envelope_id).encode(), tokens.share_id_of(envelope_id).encode()
        return b'%b,"share_token":"%b","share_id":"%b"}' % (view[:-1], token, share_id)
