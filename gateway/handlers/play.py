"""Signing in without a password, for development: a token for any of the users that a setting names.

Off unless `HONGBAO_PLAY_USERS` names users (docs/decisions/0040-users-to-play-with.md). `./run` does so where it
listens on loopback only.
"""

import re
from typing import Final

import msgspec
from aiohttp import hdrs

from errors import Refused
from gateway.http.answer import Answer, json_answer
from gateway.http.body import decode, read_body
from gateway.http.request import Request
from gateway.identity.tokens import sign
from gateway.identity.users import check_user
from gateway.limits import PLAY_TOKEN_S, PLAY_USERS
from gateway.parsing.instants import write_instant
from gateway.resources import Resource
from runtime.clock import Clock
from runtime.settings import is_loopback


class PlayBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The body of a request for a token."""

    user: str


_decoder: Final = msgspec.json.Decoder(PlayBody)


def read_play_users(text: str) -> tuple[str, ...]:
    """Return the users of a setting, written with commas between; raises Refused `settings_invalid`."""
    names = tuple(one.strip() for one in text.split(",") if one.strip())
    if len(set(names)) != len(names) or len(names) > PLAY_USERS:
        raise Refused("settings_invalid", f"HONGBAO_PLAY_USERS: at most {PLAY_USERS} users, each once")
    try:
        return tuple(map(check_user, names))
    except Refused as refusal:
        raise Refused("settings_invalid", f"HONGBAO_PLAY_USERS: {refusal.detail}") from None


class PlayHandlers:
    """One method per operation. Whoever reaches this port may be any of `users`."""

    def __init__(self, users: tuple[str, ...], token_key: str, clock: Clock, *, loopback: bool) -> None:
        """`loopback`: only this machine reaches the port; a page of another name that leads here is not served."""
        self._loopback = loopback
        self._users = users
        self._token_key = token_key
        self._clock = clock

    async def users(self, request: Request, _: Resource) -> Answer:
        """Return the names; raises Refused `play_users_off`."""
        self._check_on(request)
        return json_answer({"users": self._users})

    async def token(self, request: Request, _: Resource) -> Answer:
        """Return a token for one of them; raises Refused `play_users_off`, `unknown_play_user`."""
        self._check_on(request)
        user = decode(_decoder, await read_body(request)).user
        if user not in self._users:
            raise Refused("unknown_play_user", "no user of this name plays here; GET /v1/play has all")
        issued_at = self._clock.now_ms() // 1000
        expires_at = issued_at + PLAY_TOKEN_S
        token = sign(self._token_key, user, issued_at, expires_at)
        return json_answer({"user": user, "token": token, "expires_at": write_instant(expires_at * 1000)})

    def _check_on(self, request: Request) -> None:
        # A foreign page whose name is made to lead to 127.0.0.1 would be of this origin (DNS rebinding).
        host = re.sub(r":\d+$", "", request.headers.get(hdrs.HOST, ""))
        if not self._users or (self._loopback and not is_loopback(host)):
            raise Refused("play_users_off", "users to play with are for development, and not enabled here")
