"""How often users and addresses may ask, over HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from errors import Refused
from gateway.service import running as running_gateway
from tests.integration.gateway.fixtures import Door, door, some_id

__all__ = ["door"]


@contextlib.asynccontextmanager
async def limited(door: Door, **settings: object) -> AsyncIterator[Door]:
    """The door's calls go to a gateway with these settings."""
    async with running_gateway(msgspec.structs.replace(door.gateway.settings, **settings)) as gateway:
        door.url = f"http://127.0.0.1:{gateway.port}"
        await door.until_ready()
        yield door


async def opened(door: Door, user: str, envelope_id: str | None = None, **headers: str) -> str:
    status, answered, told = await door.call("POST", f"/v1/envelopes/{envelope_id or some_id()}/open", user, **headers)
    if status == 429:
        assert told["retry"] == "later"
        assert int(answered["Retry-After"]) >= 1
    return str(told.get("result", told.get("code")))


async def test_a_user_has_a_bucket_for_each_kind(door: Door) -> None:
    """Who has used up their opens may still look, and others open."""
    async with limited(door, user_rates="open=3/3600 create=1/3600"):
        assert [await opened(door, "bob") for _ in range(4)] == ["opened"] * 3 + ["too_many_requests"]
        assert await opened(door, "ann") == "opened"
        assert (await door.call("GET", f"/v1/envelopes/{some_id()}", "bob"))[0] == 200
        assert (await door.call("POST", f"/v1/envelopes/{some_id()}/grab", "bob"))[0] == 200
        body = {"kind": "equal", "total_fen": 2, "count": 2}
        creates = [
            (await door.call("POST", "/v1/envelopes", "bob", body, Idempotency_Key=str(number)))[0] for number in (1, 2)
        ]
        assert creates == [201, 429]


async def test_an_address_has_a_bucket_too(door: Door) -> None:
    """Whatever users ask from there; named proxies hand on whom they speak for, others are not believed."""
    async with limited(door, address_rates="open=2/3600"):
        assert [await opened(door, f"user-{one}") for one in range(3)] == ["opened"] * 2 + ["too_many_requests"]
        assert await opened(door, "other", X_Forwarded_For="192.0.2.9") == "too_many_requests"
    async with limited(door, address_rates="open=2/3600", trusted_proxies="127.0.0.1"):
        for address in ("192.0.2.1", "192.0.2.2"):
            found = [await opened(door, "bob", X_Forwarded_For=f"192.0.2.77, {address}") for _ in range(3)]
            assert found == ["opened"] * 2 + ["too_many_requests"]


async def test_one_open_of_an_envelope_in_so_many_seconds(door: Door) -> None:
    """By user and envelope: others open it, and the user opens others."""
    async with limited(door, open_every_s=3600):
        one = some_id()
        assert [await opened(door, "bob", one) for _ in range(2)] == ["opened", "too_soon"]
        assert await opened(door, "ann", one) == "opened"
        assert await opened(door, "bob") == "opened"
    async with limited(door, open_every_s=0.2):
        one = some_id()
        assert await opened(door, "bob", one) == "opened"
        await asyncio.sleep(0.25)
        assert await opened(door, "bob", one) == "opened"


async def test_nothing_is_limited_unless_it_is_set(door: Door) -> None:
    """As many as they like."""
    assert {await opened(door, "bob") for _ in range(50)} == {"opened"}


@pytest.mark.parametrize(
    "settings", [{"user_rates": "open=often"}, {"user_rates": "open=9/1", "address_rates": "open=1/1"}]
)
async def test_a_gateway_does_not_start_with_limits_that_make_no_sense(door: Door, settings: dict[str, str]) -> None:
    """It says why."""
    with pytest.raises(ExceptionGroup) as failed:
        async with limited(door, **settings):
            pass
    assert failed.group_contains(Refused, match="settings_invalid")
