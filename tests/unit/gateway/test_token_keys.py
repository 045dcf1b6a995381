"""Tokens by keys of a JWKS file: public ones beside the shared one, rotated while the gateway serves."""

import asyncio
import contextlib
import hmac
import itertools
import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from errors import Refused
from gateway.identity.token_keys import read_jwks
from gateway.identity.tokens import Tokens, make_token
from gateway.limits import JWKS_BYTES, JWKS_KEYS
from tests.clock import ManualClock

SHARED = "k" * 32
NOW = datetime(2026, 11, 21, tzinfo=UTC)
CLAIMS = {"sub": "alice", "exp": int(NOW.timestamp()) + 60}
ED = ed25519.Ed25519PrivateKey.generate()
EC = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65_537, 2_048)
WEAK_RSA = rsa.generate_private_key(65_537, 1_024)  # noqa: S505 - that is what must be refused
OTHER = "o" * 40
KINDS: dict[str, Any] = {"EdDSA": ED, "ES256": EC, "RS256": RSA, "HS256": OTHER}


def jwk(kid: str, algorithm: str, key: Any = None, **more: Any) -> dict[str, Any]:
    """The key as its owner publishes it."""
    key = key or KINDS[algorithm]
    public = key if isinstance(key, str) else key.public_key()
    row = jwt.get_algorithm_by_name(algorithm).to_jwk(public, as_dict=True)
    return {**row, "kid": kid, "alg": algorithm, **more}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    """Replace the file in one step, as one should."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"keys": rows}))
    fresh.replace(path)
    return path


def signed(algorithm: str, kid: str | None, claims: dict[str, Any] = CLAIMS, key: Any = None) -> str:
    headers = None if kid is None else {"kid": kid}
    return "Bearer " + jwt.encode(claims, key or KINDS[algorithm], algorithm=algorithm, headers=headers)


def encoded(part: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.mark.parametrize("algorithm", KINDS)
def test_each_kind_of_key(tmp_path: Path, clock: ManualClock, algorithm: str) -> None:
    """A token that names its key passes; the shared key is good as ever, whatever its tokens call it."""
    tokens = Tokens(SHARED, clock, keys=write(tmp_path / "keys", jwk("app-1", algorithm)))
    assert tokens.user_of(signed(algorithm, "app-1")) == "alice"
    assert tokens.user_of(f"Bearer {make_token(SHARED, 'bob', ttl_s=60, clock=clock)}") == "bob"
    assert tokens.user_of(signed("HS256", "as-we-like", key=SHARED)) == "alice"
    for forged in (signed(algorithm, None), signed(algorithm, "app-2"), signed("HS256", "app-1", key="x" * 40)):
        with pytest.raises(Refused, match="token_invalid"):
            tokens.user_of(forged)


def test_the_sentence_says_what_the_header_lacks(tmp_path: Path, clock: ManualClock) -> None:
    """No `kid`, one that no key has, another key under a known one: each is told apart, and no key is named by us."""
    tokens = Tokens(SHARED, clock, keys=write(tmp_path / "keys", jwk("app-1", "EdDSA"), jwk("app-2", "HS256")))
    another = ed25519.Ed25519PrivateKey.generate()
    for token, said in (
        (signed("EdDSA", None), "its header names no key (`kid`), and it is not made with the shared key"),
        (signed("HS256", None), "its header names no key (`kid`), and it is not made with the shared key"),
        (signed("EdDSA", "app-9"), "its `kid` 'app-9' is that of no key here"),
        (signed("HS256", "app-9"), "its `kid` 'app-9' is that of no key here"),
        (signed("EdDSA", "app-1", key=another), "made with another key"),
        (signed("RS256", "app-1"), "made with another key"),
    ):
        with pytest.raises(Refused, match="token_invalid") as caught:
            tokens.user_of(token)
        assert said in caught.value.detail
        assert not {"app-1", "app-2"} & set(caught.value.detail.split("'"))


def test_for_another_system_or_by_another_issuer(tmp_path: Path, clock: ManualClock) -> None:
    """The sentence names the claim, and not what is asked for."""
    path = write(tmp_path / "keys", jwk("idp", "ES256"))
    tokens = Tokens(SHARED, clock, keys=path, audience="hongbao", issuer="https://id.example")
    good = {**CLAIMS, "aud": "hongbao", "iss": "https://id.example"}
    for wrong, said in (
        ({"aud": "x"}, "its `aud`"),
        ({"iss": "x"}, "its `iss`"),
        ({"aud": None}, "lacks the claim `aud`"),
    ):
        with pytest.raises(Refused, match="token_invalid") as caught:
            tokens.user_of(signed("ES256", "idp", {**good, **wrong}))
        assert said in caught.value.detail
        assert "hongbao" not in caught.value.detail


def test_the_algorithm_is_that_of_the_key(tmp_path: Path, clock: ManualClock) -> None:
    """A public key is no secret: a token that is signed with its text as a shared one is forged."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    tokens = Tokens(SHARED, clock, keys=write(tmp_path / "keys", jwk("app-1", "RS256")))
    raw = RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    # PyJWT itself does not sign so; who attacks does.
    head, body = (encoded({"alg": "HS256", "kid": "app-1"}), encoded(CLAIMS))
    mac = urlsafe_b64encode(hmac.digest(raw, f"{head}.{body}".encode(), "sha256")).decode().rstrip("=")
    for token in (f"Bearer {head}.{body}.{mac}", signed("EdDSA", "app-1"), signed("ES256", "app-1")):
        with pytest.raises(Refused, match="token_invalid"):
            tokens.user_of(token)
    unsigned = jwt.encode(CLAIMS, "", algorithm="none", headers={"kid": "app-1"})
    with pytest.raises(Refused, match="token_invalid"):
        tokens.user_of(f"Bearer {unsigned}")


def test_for_whom_and_by_whom(tmp_path: Path, clock: ManualClock) -> None:
    """Who signs for other systems as well: a token of another one is none here. TOKEN_KEY signs for us alone."""
    path = write(tmp_path / "keys", jwk("idp", "ES256"))
    tokens = Tokens(SHARED, clock, keys=path, audience="hongbao", issuer="https://id.example")
    good = {**CLAIMS, "aud": ["other", "hongbao"], "iss": "https://id.example"}
    assert tokens.user_of(signed("ES256", "idp", good)) == "alice"
    assert tokens.user_of(f"Bearer {make_token(SHARED, 'bob', ttl_s=60, clock=clock)}") == "bob"
    for wrong in ({"aud": "other"}, {"aud": None}, {"iss": "https://evil.example"}):
        with pytest.raises(Refused, match="token_invalid"):
            tokens.user_of(signed("ES256", "idp", {**good, **wrong}))
    for missing in ("aud", "iss"):
        with pytest.raises(Refused, match="token_invalid"):
            tokens.user_of(signed("ES256", "idp", {name: one for name, one in good.items() if name != missing}))


async def test_keys_are_rotated_while_tokens_are_in_use(tmp_path: Path, clock: ManualClock) -> None:
    """The next key beside the old one, then without it: tokens of the old one end, also those that were seen."""
    path = write(tmp_path / "keys", jwk("old", "EdDSA"))
    tokens = Tokens(SHARED, clock, keys=path)
    old, new = signed("EdDSA", "old"), signed("ES256", "new")
    assert tokens.user_of(old) == "alice"
    looking = asyncio.ensure_future(tokens.service().run())

    def takes(token: str) -> bool:
        with contextlib.suppress(Refused):
            return tokens.user_of(token) == "alice"
        return False

    async def until(good: str, bad: str) -> None:
        async with asyncio.timeout(10):
            while not takes(good) or takes(bad):
                await asyncio.sleep(0.05)

    write(path, jwk("old", "EdDSA"), jwk("new", "ES256"))
    await until(good=new, bad=signed("RS256", "new"))
    assert tokens.user_of(old) == "alice"
    path.write_text("half of a fi")
    await asyncio.sleep(1.2)
    assert [tokens.user_of(one) for one in (old, new)] == ["alice"] * 2
    write(path, jwk("new", "ES256"))
    await until(good=new, bad=old)
    path.unlink()
    await asyncio.sleep(1.2)
    assert tokens.user_of(new) == "alice"
    looking.cancel()


def private(algorithm: str) -> dict[str, Any]:
    return {**jwt.get_algorithm_by_name(algorithm).to_jwk(KINDS[algorithm], as_dict=True), "kid": "a", "alg": algorithm}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "no JSON object"),
        (b"[]", "no JSON object"),
        (b'{"keys":' + b"[" * 20_000, "no JSON object"),
        (b"{}", "no list `keys`"),
        (b'{"keys": []}', "no list `keys`"),
        (json.dumps({"keys": [jwk(f"k{n}", "ES256") for n in range(JWKS_KEYS + 1)]}).encode(), "1 to 20 keys"),
        (json.dumps({"keys": ["x"]}).encode(), "key 1 has no `kid`"),
        (json.dumps({"keys": [jwk("", "ES256")]}).encode(), "key 1 has no `kid`"),
        (json.dumps({"keys": [jwk("a", "ES256"), jwk("a", "EdDSA")]}).encode(), "'a' is there twice"),
        (json.dumps({"keys": [jwk("a", "ES256", alg="none")]}).encode(), "the alg 'none'"),
        (json.dumps({"keys": [jwk("a", "ES256", alg="HS512")]}).encode(), "the alg 'HS512'"),
        (json.dumps({"keys": [jwk("a", "ES256", use="enc")]}).encode(), "not for signatures"),
        (json.dumps({"keys": [jwk("a", "RS256", key=WEAK_RSA)]}).encode(), "RSA needs at least 2048"),
        (json.dumps({"keys": [jwk("a", "HS256", key="short")]}).encode(), "fewer than 32 bytes"),
        (json.dumps({"keys": [jwk("a", "ES256", alg="EdDSA")]}).encode(), "EdDSA needs Ed25519"),
        (json.dumps({"keys": [jwk("a", "ES256", key=ec.generate_private_key(ec.SECP384R1()))]}).encode(), "P-256"),
        (json.dumps({"keys": [jwk("a", "EdDSA", key=ed448.Ed448PrivateKey.generate())]}).encode(), "needs Ed25519"),
        (json.dumps({"keys": [jwk("a", "RS256", kty="oct", k="AA")]}).encode(), "cannot be read"),
        (json.dumps({"keys": [jwk("a", "ES256", x="AA")]}).encode(), "cannot be read"),
        (json.dumps({"keys": [private("EdDSA")]}).encode(), "private half"),
        (json.dumps({"keys": [private("RS256")]}).encode(), "private half"),
    ],
    ids=itertools.count(),
)
def test_a_key_that_is_weak_missing_or_private(text: bytes, said: str) -> None:
    """It is refused with a sentence, and never shown."""
    with pytest.raises(Refused, match="HONGBAO_TOKEN_KEYS") as refused:
        read_jwks(text)
    assert said in refused.value.detail


def test_a_file_that_is_not_there(tmp_path: Path, clock: ManualClock) -> None:
    """A gateway does not start with fewer keys than it was given."""
    with pytest.raises(Refused, match="cannot be read: No such file"):
        Tokens(SHARED, clock, keys=tmp_path / "none")
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(Refused) as refused:
        Tokens(SHARED, clock, keys=tmp_path / "bad")
    assert refused.value.detail.startswith(f"HONGBAO_TOKEN_KEYS: {tmp_path / 'bad'}: it has no list `keys`")
    (tmp_path / "large").write_bytes(b" " * (JWKS_BYTES + 1))
    with pytest.raises(Refused, match="has more than 65,536 bytes"):
        Tokens(SHARED, clock, keys=tmp_path / "large")
