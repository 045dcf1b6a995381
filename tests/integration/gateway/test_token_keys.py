"""A gateway with a JWKS file: what a user with a public key's token is answered."""

import json
from pathlib import Path

import aiohttp
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from errors import Refused
from gateway.identity.tokens import make_token
from gateway.service import GatewaySettings
from gateway.service import running as running_gateway
from runtime.clock import SystemClock
from tests.integration.gateway.fixtures import KEY, Client, Door, door
from tests.link_keys import GATEWAY_KEY

__all__ = ["door"]

PRIVATE = ed25519.Ed25519PrivateKey.generate()


async def test_a_public_key_opens_the_door(door: Door, tmp_path: Path) -> None:
    """Beside the shared key; a token for another system is answered 401."""
    row = jwt.get_algorithm_by_name("EdDSA").to_jwk(PRIVATE.public_key(), as_dict=True)
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{**row, "kid": "app", "alg": "EdDSA"}]}))
    settings = GatewaySettings(
        listen="127.0.0.1:0", topology=str(door.topology), wallet_url=door.wallet.url, link_key=GATEWAY_KEY.text,
        token_key=KEY, share_key=KEY, slot_key=KEY, token_keys=str(keys), token_audience="hongbao",
    )  # fmt: skip

    def signed(user: str, audience: str = "hongbao") -> str:
        exp = SystemClock().now_ms() // 1000 + 60
        return jwt.encode({"sub": user, "exp": exp, "aud": audience}, PRIVATE, "EdDSA", headers={"kid": "app"})

    async with running_gateway(settings) as gateway, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{gateway.port}"
        shared = Client(url, lambda user: make_token(KEY, user, ttl_s=60, clock=SystemClock()), session)
        await door.until(lambda: not gateway.readiness.missing())
        for client in (Client(url, signed, session), shared):
            assert (await client.call("GET", "/v1/me/wallet", "bob"))[2] == {"user": "bob", "balance_fen": 500}
        other = Client(url, lambda user: signed(user, "another system"), session)
        status, headers, problem = await other.call("GET", "/v1/me/wallet", "bob")
        assert (status, problem["code"]) == (401, "token_invalid")
        assert "WWW-Authenticate" in headers
    keys.write_text("{}")
    with pytest.raises(Refused, match="no list `keys`"):
        async with running_gateway(settings):
            pass
