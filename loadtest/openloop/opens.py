"""Envelopes to open and the requests that open them: every one wins a share as long as there are shares left."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from client import calls
from client.calls import Call
from client.errors import error_of
from errors import Unavailable
from installation.access import Access
from loadtest.openloop.generator import Generator

SHARES: Final = 20
FEN_A_SHARE: Final = 100
HOSTS: Final = 20
"""Senders that take turns, so that creates do not wait for each other at one account of the wallet."""
CREATE_CONNECTIONS: Final = 64
CREATE_S: Final = 300.0
_CREATED: Final = 201


class Envelope(msgspec.Struct, frozen=True):
    """What an open needs to know."""

    envelope_id: str
    share_token: str
    share_id: str = ""


class Guests(msgspec.Struct, frozen=True):
    """Envelopes of SHARES shares, and as many users with their bearer tokens: each may open each envelope once."""

    envelopes: list[Envelope]
    users: list[str]
    tokens: list[str]

    @property
    def opens(self) -> int:
        """How many opens there are to win."""
        return len(self.envelopes) * len(self.users)

    def of(self, number: int) -> tuple[str, str]:
        """Return (envelope ID, user) of open `number`: round robin over the envelopes, then the next user."""
        user, envelope = divmod(number, len(self.envelopes))
        return self.envelopes[envelope].envelope_id, self.users[user]

    def requests(self, first: int = 0) -> Iterator[bytes]:
        """Return the requests from open `first` on."""
        heads = [
            head_of(calls.open_(one.envelope_id)) + f"X-Share-Token: {one.share_token}\r\n".encode()
            for one in self.envelopes
        ]
        tails = [f"Authorization: Bearer {token}\r\n\r\n".encode() for token in self.tokens]
        return islice((head + tail for tail in tails for head in heads), first, None)


def head_of(call: Call[Any]) -> bytes:
    """Return the head of a call as it goes over a socket, without bearer token and the empty line at its end."""
    lines = [f"{call.method} {call.path} HTTP/1.1", "Host: load", f"Content-Length: {len(call.body)}"]
    lines += [f"{name}: {value}" for name, value in call.headers.items()]
    return "".join(f"{line}\r\n" for line in lines).encode()


async def guests(access: Access, opens: int) -> Guests:
    """Make envelopes for at least so many opens, over HTTP; raises Unavailable when a create is refused."""
    envelopes = -(-opens // SHARES)
    users = [f"guest-{number}" for number in range(SHARES)]
    made = await create(access, envelopes, SHARES)
    return Guests(made, users, [access.token(user) for user in users])


async def create(access: Access, envelopes: int, shares: int) -> list[Envelope]:
    """Make so many envelopes of so many shares, paid for by hosts; raises Unavailable when a create is refused."""
    hosts = [f"host-{number}" for number in range(HOSTS)]
    async with access.wallet() as wallet:
        for host in hosts:
            await wallet.deposit(access.order_no(), host, (envelopes // HOSTS + 1) * shares * FEN_A_SHARE)
    bearers = [f"Authorization: Bearer {access.token(host)}\r\n\r\n".encode() for host in hosts]
    made: list[Envelope] = []
    refused: list[str] = []

    def on_answer(_: int, status: int, told: bytes, _due: float, _now: float) -> None:
        if status == _CREATED:
            made.append(msgspec.json.decode(told, type=Envelope))
        else:
            refused.append(str(error_of(status, told, None)))

    def request(number: int) -> bytes:
        call = calls.create(total_fen=shares * FEN_A_SHARE, count=shares)
        return head_of(call) + bearers[number % HOSTS] + call.body

    requests = map(request, range(envelopes))
    async with Generator(
        access.gateway_url, CREATE_CONNECTIONS, on_answer, lambda _, reason: refused.append(reason)
    ) as creates:
        await creates.closed_loop(requests, CREATE_S)
    if len(made) < envelopes:
        raise Unavailable("create_failed", f"{len(made)} of {envelopes} envelopes were made; {refused[:1]}")
    return made
