"""Connections of a gateway that pages of other origins may call: each answer says whether its reader may read it.

Classes of their own, chosen at the start: without HONGBAO_CORS_ORIGINS no request pays for them, not even a look.
A refusal must carry the lines as well, or a page cannot tell 503 `busy` from a network that is gone.
"""

from functools import partial
from typing import Any, cast

from errors import Refused
from gateway.admission.line import Refusal
from gateway.connection import Connection
from gateway.http.aiohttp_private import MalformedHead
from gateway.http.answer import Answer, Bodiless, Stream
from gateway.http.origins import ASKED_METHOD, Origins, preflight_lines
from gateway.http.request import Request
from gateway.newcomers import Newcomer
from gateway.refusals import CrossOriginRefusals
from gateway.resources import Handler, Resource


class CrossOriginConnection(Connection):
    """A `Connection` whose answers carry the lines of `CrossOriginRefusals.origins`."""

    __slots__ = ()

    refusals: CrossOriginRefusals

    def data_received(self, data: bytes) -> None:
        """Note for whom a refusal is that is written before the request is parsed."""
        if self.line.selective:
            self.refusals.next_for(data)
        super().data_received(data)

    def _refuse_next(self, refusal: Refusal) -> None:
        head: Any = self._messages[0][0]
        if type(head) is not MalformedHead:
            self.refusals.next_lines = self.refusals.origins.lines(head.headers)
        super()._refuse_next(refusal)

    def _write(self, request: Request, answer: Answer) -> bool:
        answer.headers = self.refusals.origins.lines(request.headers) + answer.headers
        return super()._write(request, answer)

    def _hand_over(self, request: Request, answer: Answer, stream: Stream) -> None:
        answer.headers = self.refusals.origins.lines(request.headers) + answer.headers
        super()._hand_over(request, answer, stream)


class CrossOriginNewcomer(Newcomer):
    """A `Newcomer` whose refusals carry them."""

    __slots__ = ()

    def refuse(self, refusal: Refusal) -> None:
        """Answer the request with 503 `busy`."""
        cast("CrossOriginRefusals", self._factory.refusals).next_for(self.data)
        super().refuse(refusal)


def preflight(origins: Origins) -> Handler:
    """Return the handler of OPTIONS: it answers the question of a browser whose page may call, and no other."""
    return partial(_preflight, origins)


async def _preflight(origins: Origins, request: Request, resource: Resource) -> Answer:
    asked = ASKED_METHOD in request.headers
    if not (asked and origins.allows(request.headers)):
        # A browser asks so for a page of another origin, and whoever has written the page looks here.
        how = "; pages of other origins may call if HONGBAO_CORS_ORIGINS names theirs" if asked else ""
        raise Refused("method_not_allowed", f"the methods of this path are {', '.join(resource.methods)}{how}")
    return Bodiless(204, b"", headers=preflight_lines(resource.methods))
