"""Bearer tokens: only a signed, unexpired token of a well-formed user passes, and a remembered one expires, too."""

import base64
import json
from contextvars import ContextVar
from datetime import UTC, datetime

import jwt
import pytest
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict, CIMultiDictProxy

from errors import InvariantBroken, Refused, Unavailable
from gateway.http.answer import json_answer
from gateway.http.request import Request
from gateway.identity.auth_failures import AuthFailureLimiter
from gateway.identity.tokens import Tokens, make_token
from tests.clock import ManualClock

KEY = "k" * 32
NOW = datetime(2026, 11, 21, tzinfo=UTC)
NOW_S = int(NOW.timestamp())


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def tokens(clock):
    return Tokens(KEY, clock, cache=4)


def signed(claims, *, key=KEY, algorithm="HS256", **headers):
    return "Bearer " + jwt.encode(claims, key, algorithm=algorithm, headers=headers or None)


def refusal(tokens, authorization):
    with pytest.raises(Refused) as caught:
        tokens.user_of(authorization)
    return caught.value.code


def test_a_good_token_names_its_user(tokens, clock):
    """What make_token makes passes, once and again; the scheme's case does not matter."""
    token = make_token(KEY, "alice", ttl_s=60, clock=clock)
    assert [
        tokens.user_of(f"Bearer {token}"),
        tokens.user_of(f"Bearer {token}"),
        tokens.user_of(f"bearer {token}"),
    ] == ["alice"] * 3


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer   ", "Basic YWxpY2U6eA==", "abc"])
def test_without_a_token(tokens, header):
    """No bearer token is told apart from a bad one."""
    assert refusal(tokens, header) == "token_missing"


GOOD = {"sub": "alice", "exp": NOW_S + 60}


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S + 60},
        {"sub": "alice"},
        {"sub": 7, "exp": NOW_S + 60},
        {"sub": "", "exp": NOW_S + 60},
        {"sub": "a" * 41, "exp": NOW_S + 60},
        {"sub": "al ice", "exp": NOW_S + 60},
        {"sub": "al\nice", "exp": NOW_S + 60},
        {"sub": "alice\n", "exp": NOW_S + 60},
        {"sub": "-alice", "exp": NOW_S + 60},
        {"sub": "alicé", "exp": NOW_S + 60},
        {"sub": "user:alice", "exp": NOW_S + 60},
        {"sub": "alice", "exp": "soon"},
        {"sub": "alice", "exp": True},
        {"sub": "alice", "exp": None},
        {"sub": "alice", "exp": [NOW_S + 60]},
        {"sub": "alice", "exp": float("inf")},
        {"sub": "alice", "exp": float("nan")},
        {**GOOD, "nbf": NOW_S + 30},
        {**GOOD, "nbf": "x"},
    ],
)
def test_claims_that_do_not_pass(tokens, claims):
    """A correctly signed token must still name a well-formed user and an expiry."""
    assert refusal(tokens, signed(claims)) == "token_invalid"


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"sub": "alice"}, "lacks the claim `exp`"),
        ({"exp": NOW_S + 60}, "lacks the claim `sub`"),
        ({"sub": 7, "exp": NOW_S + 60}, "`sub` is no user ID: 1 to 40 letters, digits or . _ @ -"),
        ({"sub": "user:alice", "exp": NOW_S + 60}, "`sub` is no user ID: 1 to 40 letters, digits or . _ @ -"),
        ({"sub": "alice", "exp": (NOW_S + 60) * 1000}, "is in milliseconds"),
        ({**GOOD, "nbf": NOW_S * 1000}, "is in milliseconds"),
        ({"sub": "alice", "exp": "soon"}, "is no time in seconds"),
        ({"sub": "alice", "exp": 10**400}, "is no time in seconds"),
        ({**GOOD, "nbf": NOW_S + 30}, "is still to come"),
    ],
)
def test_the_sentence_says_which_claim(tokens, claims, said):
    """Whoever signs with our key is told what else is wrong; whoever does not, hears of their key alone."""
    with pytest.raises(Refused, match="token_invalid") as caught:
        tokens.user_of(signed(claims))
    assert said in caught.value.detail
    with pytest.raises(Refused, match="token_invalid") as caught:
        tokens.user_of(signed(claims, key="x" * 32))
    assert caught.value.detail.endswith("it is made with another key than the one it is verified with")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (signed(GOOD, key="k" * 64, algorithm="HS512"), "signed with 'HS512', and there is only the shared key here"),
        (signed(GOOD, key="k" * 64, algorithm="HS512", kid="a\ud800" + "b" * 99), "its `kid` 'a\\ud800bbb"),
        ("Bearer abc", "it is no JWT"),
        ("Bearer a.b.c", "it is malformed"),
        ("Bearer " + "a" * 5000, "more than 2,048 characters"),
    ],
)
def test_the_sentence_says_what_of_the_header(tokens, header, said):
    """An algorithm, a `kid` and a form that cannot be right are named, shortly and in ASCII."""
    with pytest.raises(Refused, match="token_invalid") as caught:
        tokens.user_of(header)
    assert said in caught.value.detail
    assert caught.value.detail.isascii()
    assert len(caught.value.detail) < 200


def test_a_kid_that_is_no_text(tokens):
    """It is refused, never an error of ours."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":7}').rstrip(b"=").decode()
    assert refusal(tokens, f"Bearer {head}.e30.AAAA") == "token_invalid"


def unsigned(header, claims):
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in (header, claims)]
    return ".".join([*parts, ""])


@pytest.mark.parametrize(
    "header",
    [
        signed(GOOD, key="x" * 32),
        signed(GOOD, key="k" * 64, algorithm="HS512"),
        "Bearer " + unsigned({"alg": "none", "typ": "JWT"}, GOOD),
        "Bearer " + unsigned({"alg": "HS256"}, GOOD),
        "Bearer " + unsigned({"alg": "RS256"}, GOOD),
        signed(GOOD)[:-2],
        signed(GOOD) + "A",
        signed(GOOD).replace(".", "", 1),
        "Bearer a.b.c",
        "Bearer ...",
        "Bearer \ud800",
        "Bearer " + "é" * 20,
        "Bearer " + "a" * 5000,
        "Bearer " + base64.urlsafe_b64encode(b"[" * 900).decode() + ".e30.x",
    ],
)
def test_forged_and_malformed(tokens, header):
    """Another key, another algorithm, none, or bytes that are no token: invalid, never an error of ours."""
    assert refusal(tokens, header) == "token_invalid"


def test_expiry_also_ends_a_remembered_token(tokens, clock):
    """The cache honours `exp` to the second, and goes on refusing."""
    header = signed(GOOD)
    assert tokens.user_of(header) == "alice"
    clock.advance(seconds=59)
    assert tokens.user_of(header) == "alice"
    clock.advance(seconds=1)
    assert [refusal(tokens, header), refusal(tokens, header)] == ["token_expired"] * 2


def test_the_cache_is_bounded_and_keeps_whom_it_sees(tokens, clock):
    """However many tokens come, at most `cache` of them are remembered; all of them keep passing."""
    headers = [signed({"sub": f"user{number}", "exp": NOW_S + 60}) for number in range(50)]
    for number, header in enumerate([*headers, *headers]):
        assert tokens.user_of(header) == f"user{number % 50}"
        assert tokens._verified.cache_info().currsize <= 4


def test_a_hot_token_is_not_verified_again(tokens, monkeypatch):
    """After the first time a token costs no cryptography."""
    header = signed(GOOD)
    tokens.user_of(header)
    monkeypatch.setattr(tokens, "_decode", None)
    assert tokens.user_of(header) == "alice"


class Buckets(AuthFailureLimiter):
    """Buckets whose clock is moved by hand."""

    def __init__(self, per_s, **more):
        self.now = 10**12
        super().__init__(per_s, now_ns=lambda: self.now, **more)


FORGED = signed(GOOD, key="x" * 32)


def test_rejected_tokens_are_limited(clock, monkeypatch):
    """After so many rejections a second no unknown token is looked at, for as long as Retry-After says; then again."""
    buckets = Buckets(3)
    tokens = Tokens(KEY, clock, failures=buckets)
    known = signed(GOOD)
    tokens.user_of(known)
    expired = signed({"sub": "alice", "exp": NOW_S - 1})
    assert [refusal(tokens, one) for one in (FORGED, expired, FORGED)] == [
        "token_invalid", "token_expired", "token_invalid",
    ]  # fmt: skip
    monkeypatch.setattr("gateway.identity.tokens.jwt.decode", None)
    for header in (FORGED, signed({**GOOD, "sub": "bob"})):
        with pytest.raises(Unavailable, match="too_many_rejected_tokens") as caught:
            tokens.user_of(header)
        assert 0 < caught.value.retry_after_s <= 1
    assert tokens.user_of(known) == "alice"
    assert refusal(tokens, "Basic x") == "token_missing"
    monkeypatch.undo()
    buckets.now += 10**9
    assert tokens.user_of(signed({**GOOD, "sub": "bob"})) == "bob"


def test_the_bucket_fills_again(clock):
    """A third of a second later one of three may be rejected again, and accepted tokens take nothing out."""
    buckets = Buckets(3)
    tokens = Tokens(KEY, clock, failures=buckets)
    for _ in range(3):
        refusal(tokens, FORGED)
    with pytest.raises(Unavailable) as caught:
        tokens.user_of(FORGED)
    buckets.now += round(caught.value.retry_after_s * 10**9)
    for number in range(20):
        tokens.user_of(signed({"sub": f"user{number}", "exp": NOW_S + 60}))
    assert refusal(tokens, FORGED) == "token_invalid"
    with pytest.raises(Unavailable):
        tokens.user_of(FORGED)
    buckets.now += 10**9
    assert [refusal(tokens, FORGED) for _ in range(3)] == ["token_invalid"] * 3


def test_each_address_has_a_bucket_and_they_are_bounded(monkeypatch):
    """One address's rejections are not another's; an IPv6 network is one address; the quietest is forgotten first."""
    rejections = Buckets(1, addresses=2)

    def limited(address):
        monkeypatch.setattr("gateway.identity.auth_failures.CLIENT_ADDRESS", ContextVar("peer", default=address))
        try:
            rejections.check()
        except Unavailable:
            return True
        rejections.count()
        return False

    assert [limited(one) for one in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "::ffff:10.0.0.2")] == [False, True] * 2
    assert [limited(one) for one in ("2001:db8::1", "2001:db8::2:3", "2001:db8:0:1::1")] == [False, True, False]
    assert not limited("10.0.0.1")
    assert [limited(""), limited("")] == [False, True]
    assert len(rejections._buckets) == 2


def test_a_short_key_is_refused(clock):
    """A key that could be guessed does not start."""
    with pytest.raises(InvariantBroken):
        Tokens("short", clock)


def test_a_request_and_its_answer_name_themselves_without_secrets():
    """A log may print what it is given: no bearer token, no share token and no amount is in it."""
    headers = CIMultiDictProxy(CIMultiDict(Authorization="Bearer secret"))
    request = Request("GET", "/v1/envelopes/1?share_token=secret", headers, EMPTY_PAYLOAD, True, None, None)
    assert "secret" not in repr([request, json_answer({"share_token": "secret"})])


@pytest.mark.parametrize("exp", [1e308, 10**400, 10**19, 253_402_300_800, -(10**400)])
def test_a_time_that_is_none_is_a_bad_token(tokens, exp):
    """A number beyond the calendar is refused as a malformed token, never an unexpected error; so is it in nbf."""
    assert refusal(tokens, signed({"sub": "alice", "exp": exp})) in ("token_invalid", "token_expired")
    assert refusal(tokens, signed({"sub": "alice", "exp": NOW_S + 60, "nbf": 10**400})) == "token_invalid"


def test_one_token_takes_one_place_in_the_cache(tokens, clock):
    """However its header is written, a token is remembered once; spellings that are no JWT are refused."""
    token = make_token(KEY, "alice", ttl_s=60, clock=clock)
    for scheme in ("Bearer", "bearer", "BEARER", "bEaReR"):
        assert tokens.user_of(f"{scheme} {token}") == "alice"
    for spelled in (f" {token}", f"{token}=", f"{token}==", f"\t{token}", f"   {token}"):
        assert refusal(tokens, f"Bearer {spelled}") == refusal(tokens, f"bearer {spelled}") == "token_invalid"
    assert tokens._verified.cache_info().currsize == 1
