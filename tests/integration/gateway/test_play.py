"""Signing in without a password: off unless named, and for nobody but those who are named."""

import msgspec
import pytest

from errors import Refused
from gateway.handlers.play import read_play_users
from gateway.service import running as running_gateway
from tests.integration.gateway.fixtures import Door, door

__all__ = ["door"]


async def test_nobody_plays_by_default(door: Door) -> None:
    """Without the setting both calls are 404, whatever is sent."""
    for method, path, body in (("GET", "/v1/play", None), ("POST", "/v1/play/token", {"user": "alice"})):
        status, _, problem = await door.call(method, path, None, body)
        assert (status, problem["code"]) == (404, "play_users_off")


async def test_those_who_are_named_may_sign_in(door: Door) -> None:
    """A named user gets a token that the gateway takes; everybody else, and every other body, is refused."""
    settings = msgspec.structs.replace(door.gateway.settings, play_users="alice, bob")
    async with running_gateway(settings) as gateway:
        door.url = f"http://127.0.0.1:{gateway.port}"
        await door.until_ready()
        assert (await door.call("GET", "/v1/play", None))[2] == {"users": ["alice", "bob"]}
        status, _, made = await door.call("POST", "/v1/play/token", None, {"user": "bob"})
        assert (status, made["user"], set(made)) == (200, "bob", {"user", "token", "expires_at"})
        # Known, so it is refused for the list that it does not name, not for the token.
        status, _, problem = await door.call("GET", "/v1/me/envelopes", None, Authorization=f"Bearer {made['token']}")
        assert problem["code"] == "unknown_role"
        # A page of another name that was made to lead to 127.0.0.1 gets nothing.
        for method, path, body in (("GET", "/v1/play", None), ("POST", "/v1/play/token", {"user": "bob"})):
            status, _, problem = await door.call(method, path, None, body, Host=f"evil.example:{gateway.port}")
            assert (status, problem["code"]) == (404, "play_users_off")
        wrong = {"unknown_play_user": {"user": "carol"}, "wrong_type": {"user": 1}, "missing_field": {}}
        for code, body in wrong.items():
            status, _, problem = await door.call("POST", "/v1/play/token", None, body)
            assert (status, problem["code"]) == ({"unknown_play_user": 404}.get(code, 422), code)
        status, _, problem = await door.call("POST", "/v1/play/token", None, {"user": "bob", "sub": "carol"})
        assert (status, problem["code"]) == (422, "unknown_field")


@pytest.mark.parametrize("text", ["小明", "a b", "alice,alice", ",".join(f"u{number}" for number in range(101))])
def test_a_wrong_setting_is_refused_at_the_start(text: str) -> None:
    """Names that no token can have, twice the same, or too many."""
    with pytest.raises(Refused, match="HONGBAO_PLAY_USERS"):
        read_play_users(text)
