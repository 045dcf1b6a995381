"""The client: a session to a gateway, and each user as an object with what a user can do."""

import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Final, Self, TypeVar

import aiohttp

from . import calls
from .calls import Call, Named
from .connection import Attempt, Connection
from .errors import TryLater, Unchanged
from .live import Watch
from .models import Change, Claim, Detail, Entry, Envelope, Mine, Result, Totals
from .retries import Patience, RetryBudget
from .tokens import Bearer, TokenSource

T = TypeVar("T")
PAGE: Final = 100


class Hongbao:
    """A gateway, by its URL (http:// or https://). Use it as `async with`; its users share sessions and retries.

    As many connections are open as calls and streams are under way; a gateway bounds them for each address.
    `session`: one of your own, which stays open; calls wait, as its connector has it, while streams take its
    connections. `budget`: one that several sessions of a process share, or a wider one. `on_attempt` hears of each
    request that was sent.
    """

    def __init__(
        self,
        url: str,
        *,
        patience: Patience | None = None,
        session: aiohttp.ClientSession | None = None,
        budget: RetryBudget | None = None,
        on_attempt: Callable[[Attempt], None] | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no gateway's URL; it begins with http:// or https://")
        self._url = url
        self._patience = patience or Patience()
        self._given = session
        self._on_attempt = on_attempt
        self._budget = budget or RetryBudget()
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        session = self._given or aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._connection = Connection(self._url, session, self._patience, self._budget, self._on_attempt)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None and self._given is None:
            await self._connection.session.close()
        self._connection = None

    @property
    def connection(self) -> Connection:
        """What sends calls; raises RuntimeError outside of `async with`."""
        if self._connection is None:
            raise RuntimeError("use `async with Hongbao(...) as hongbao`")
        return self._connection

    def user(self, token: TokenSource) -> "User":
        """Return the user that a token stands for.

        A function instead of a text is asked when a token is needed first, and again once one has expired. What is no
        token (None, a text that begins with "Bearer ") raises TypeError or ValueError.
        """
        return User(self, Bearer(token))

    def play(self, name: str) -> "User":
        """Return one of the users of `play_users`, who need no token: for development, where the gateway allows it."""

        async def token() -> str:
            return (await self.connection.send(calls.play_token(name))).token

        return self.user(token)

    async def play_users(self) -> list[str]:
        """Return who may be played; raises NotFound where nobody may."""
        return (await self.connection.send(calls.play_users())).users


class User:
    """What one user can do. Every method raises ApiError (`client.errors`), and what the token's function raises.

    `envelope` is what `create` or `detail` returned, or an ID, or the share ID that the sender passed on.
    """

    def __init__(self, hongbao: Hongbao, bearer: Bearer) -> None:
        self._hongbao = hongbao
        self._bearer = bearer

    async def create(
        self,
        *,
        total_fen: int,
        count: int,
        kind: str = "lucky",
        greeting: str | None = None,
        to: list[str] | None = None,
        password: str | None = None,
        opens_at: datetime | None = None,
        expires_in_s: int | None = None,
        split: str | None = None,
        min_fen: int | None = None,
        max_fen: int | None = None,
        idempotency_key: str | None = None,
    ) -> Envelope:
        """Send an envelope; returned once its money is set aside. Pass `share_id` on to whom it is for.

        `kind`: `lucky` or `equal`; `to`: only these users may open it. Give an `idempotency_key` if you would repeat
        the call after a crash of yours: the same key makes no second envelope.
        """
        call = calls.create(
            total_fen=total_fen, count=count, kind=kind, greeting=greeting, to=to, password=password,
            opens_at=opens_at, expires_in_s=expires_in_s, split=split, min_fen=min_fen, max_fen=max_fen,
            idempotency_key=idempotency_key,
        )  # fmt: skip
        return await self._send(call)

    async def open(self, envelope: Named, *, password: str | None = None) -> Result:
        """Claim a share. That there was none is a result as well (`sold_out`), no exception."""
        return await self._send(calls.open_(envelope, password=password))

    async def grab(self, envelope: Named) -> Result:
        """Ask whether an open would win now; nothing is written or promised."""
        return await self._send(calls.grab(envelope))

    async def detail(self, envelope: Named, *, seen: Detail | None = None) -> Detail:
        """Return an envelope as it is, with its first 100 claims; `seen` itself while that is still how it is."""
        # A version does not say of which envelope it is.
        known = seen if seen is not None and seen.envelope_id == calls.id_of(envelope) else None
        try:
            return await self._send(calls.detail(envelope, version=known.version if known else ""))
        except Unchanged:
            if known is None:
                raise
            return known

    async def claims(self, envelope: Named) -> AsyncIterator[Claim]:
        """Yield all claims, oldest first."""
        cursor: str | None = None
        while True:
            page = await self._send(calls.detail(envelope, cursor=cursor, limit=PAGE))
            for claim in page.claims:
                yield claim
            cursor = page.next_cursor
            if cursor is None:
                return

    async def watch(self, *envelopes: Named) -> AsyncIterator[Change]:
        """Yield how each envelope is now, then each change, until nobody can open any of them any more.

        One that expires changes twice: to `expired`, and once it is closed, with `refund_fen`; then the watch ends.
        At most 50 envelopes. Changes that follow each other quickly come as one; none is lost, but a change tells of
        the newest 20 claims alone. A stream that breaks is begun again. Raises ValueError without an envelope.
        """
        watch = Watch(self._hongbao.connection, self._bearer, envelopes)
        async with contextlib.aclosing(watch.changes()) as changes:
            async for change in changes:
                yield change

    async def cancel(self, envelope: Named) -> Detail:
        """Close an envelope of this user's now; what is left comes back."""
        return await self._send(calls.cancel(envelope))

    async def balance_fen(self) -> int:
        """Return what the user's wallet holds."""
        return (await self._send(calls.wallet())).balance_fen

    async def entries(self) -> AsyncIterator[Entry]:
        """Yield the user's statement, newest first."""
        cursor: str | None = None
        while True:
            page = await self._send(calls.entries(cursor=cursor))
            for entry in page.items:
                yield entry
            cursor = page.next_cursor
            if cursor is None:
                return

    def sent(self) -> AsyncIterator[Mine]:
        """Yield the envelopes that the user sent, newest first."""
        return self._mine("sent")

    def received(self) -> AsyncIterator[Mine]:
        """Yield the envelopes of which the user has a share, newest first."""
        return self._mine("received")

    def waiting(self) -> AsyncIterator[Mine]:
        """Yield the envelopes that name the user and that the user has not opened, newest first.

        Raises TryLater `incomplete` after the last one if a part that has others could not be asked.
        """
        return self._mine("waiting")

    async def totals(self, year: int) -> Totals:
        """Return what the user received, sent and got back in a year."""
        return await self._send(calls.totals(year))

    async def _mine(self, role: str) -> AsyncIterator[Mine]:
        cursor: str | None = None
        incomplete = False
        while True:
            page = await self._send(calls.envelopes(role, cursor=cursor))
            for item in page.items:
                yield item
            incomplete |= page.incomplete
            cursor = page.next_cursor
            if cursor is None:
                break
        if incomplete:
            raise TryLater("incomplete", "a part is away: some envelopes may be missing from this list")

    async def _send(self, call: Call[T]) -> T:
        return await self._hongbao.connection.send(call, self._bearer)
