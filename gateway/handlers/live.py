"""Step 4 of a request for `/v1/live`: a stream of what changes of some envelopes."""

import asyncio
from http import HTTPStatus

from multidict import MultiMapping

from errors import HongbaoError, Refused
from gateway.handlers.targets import Targets
from gateway.http.answer import Answer
from gateway.http.request import Request
from gateway.identity.rates import Kind, Rates
from gateway.identity.tokens import Tokens
from gateway.limits import LIVE_ENVELOPES
from gateway.live.events import EVENT_STREAM, refused_event, version_id
from gateway.live.hub import Hub, Joined
from gateway.live.watcher import Watcher
from gateway.parsing.paging import one
from gateway.problems import problem_of, public_code
from gateway.resources import Resource

LAST_EVENT_ID = "Last-Event-ID"


class LiveHandlers:
    """Begins streams; `gateway.live` goes on with them."""

    def __init__(self, tokens: Tokens, rates: Rates, targets: Targets, hub: Hub) -> None:
        self._viewer_of = rates.guard(Kind.VIEW, tokens.user_of)
        self._left_s = tokens.left_s
        self._targets = targets
        self._hub = hub

    async def watch(self, request: Request, resource: Resource) -> Answer:
        """Begin a stream: first what each envelope is now, then each change.

        Envelopes that this user may not see are named in an event `refused`; if there is no other one, the refusal is
        the answer.
        """
        del resource
        user = self._viewer_of(request.authorization)
        texts = _read_envelopes(request.url.query)
        for _ in texts[1:]:
            # Each envelope is a call: a stream of many counts as many views.
            self._viewer_of(request.authorization)
        self._hub.check_room(user)
        token_s = self._left_s(request.authorization)
        asked = await asyncio.gather(*(self._join(user, text) for text in texts), return_exceptions=True)
        joined = [one for one in asked if isinstance(one, Joined)]
        try:
            _raise_refusals(asked, any_joined=bool(joined))
            self._hub.check_room(user)
            watcher = self._watcher(request, user, texts, asked, token_s)
        except BaseException:
            self._hub.abandon(joined)
            raise
        if request.method == "HEAD":
            self._hub.abandon(joined)
            return Answer(HTTPStatus.OK, b"", EVENT_STREAM)
        self._hub.add(watcher, joined)
        return Answer(HTTPStatus.OK, b"", EVENT_STREAM, stream=watcher)

    def _watcher(
        self, request: Request, user: str, texts: list[str], asked: list[Joined | BaseException], token_s: float
    ) -> Watcher:
        """Return the stream, with its first events: not of what the client has seen already (`Last-Event-ID`)."""
        joined = [one for one in asked if isinstance(one, Joined)]
        # An envelope that is named twice, by ID and share ID, is watched once.
        envelopes = {one.envelope_id: one.token_ok for one in joined}
        seen = request.headers.get(LAST_EVENT_ID)
        first = {one.envelope_id: one.event for one in joined if version_id(one.envelope_id, one.version) != seen}
        refusals = b"".join(
            refused_event(text, public_code(told), problem_of(told).detail or told.detail)
            for text, told in zip(texts, asked, strict=True)
            if isinstance(told, HongbaoError)
        )
        return Watcher(self._hub, user, envelopes, first, refusals, token_s)

    async def _join(self, user: str, text: str) -> Joined:
        target, shared = self._targets.read(text)
        return await self._hub.join(target.envelope_id, user, token_ok=shared)


def _raise_refusals(asked: list[Joined | BaseException], *, any_joined: bool) -> None:
    """Raise what nobody expected; a refusal only if no envelope was joined."""
    problems = [one for one in asked if isinstance(one, BaseException)]
    for problem in problems:
        if not isinstance(problem, HongbaoError):
            raise problem
    if problems and not any_joined:
        raise problems[0]


def _read_envelopes(query: MultiMapping[str]) -> list[str]:
    for name in query:
        if name != "envelopes":
            raise Refused("unknown_parameter", f"there is no parameter {name[:50]!r} here; known: envelopes")
    texts = [*dict.fromkeys((one(query, "envelopes") or "").split(","))]
    if not 1 <= len(texts) <= LIVE_ENVELOPES or not all(texts):
        raise Refused(
            "malformed_envelopes", f"envelopes must be 1 to {LIVE_ENVELOPES} IDs or share IDs, with commas between"
        )
    return texts
