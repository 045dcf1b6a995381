"""Who goes first: classes, promises, and places that change with the hour."""

from base64 import urlsafe_b64encode

import pytest

from gateway.admission import priority
from gateway.admission.priority import Class, Places, Promises
from gateway.identity.tokens import sign
from gateway.limits import HOUR_S, PLACES, PROMISE_S


@pytest.fixture
def now() -> list[float]:
    return [1_000.0]


def bearer(user: str, *, issued_at: int = 1) -> bytes:
    return f"Bearer {sign('k' * 32, user, issued_at, 2_000_000_000)}".encode()


@pytest.fixture
def promises(now: list[float]) -> Promises:
    return Promises(lambda: now[0])


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/envelopes/1/open", Class.OPEN),
        ("POST", "/v1/envelopes/1/grab", Class.GRAB),
        ("POST", "/v1/envelopes", Class.CREATE),
        ("POST", "/v1/envelopes/1/cancel", Class.ALWAYS),
        ("GET", "/v1/envelopes/1", Class.VIEW),
        ("GET", "/v1/me/wallet", Class.VIEW),
        ("GET", "/v1/me/envelopes?limit=2", Class.VIEW),
        ("GET", "/", Class.VIEW),
        ("GET", "/s/AxYz?c=2", Class.VIEW),
        ("GET", "/assets/app.0123456789.js", Class.VIEW),
        ("GET", "/v1/play", Class.ALWAYS),
        ("OPTIONS", "/v1/me/envelopes", Class.ALWAYS),
        ("OPTIONS", "/v1/envelopes", Class.ALWAYS),
        ("OPTIONS", "/v1/envelopes/2611210123456789073/open", Class.ALWAYS),
        ("GET", "/healthz", Class.ALWAYS),
        ("GET", "/metrics", Class.ALWAYS),
        ("GET", "/no/such/path", Class.ALWAYS),
    ],
)
def test_the_class_of_a_request(promises: Promises, method: str, path: str, kind: Class) -> None:
    """By its method and path alone; cancels, health and metrics are never refused."""
    assert promises.class_of(method, path, b"Bearer a") is kind


def test_who_was_told_openable_goes_first(promises: Promises, now: list[float]) -> None:
    """For this envelope and user, whichever of their tokens they show, for PROMISE_S."""
    promises.note("a", "7")
    for token in (bearer("a"), bearer("a", issued_at=2)):
        assert promises.class_of("POST", "/v1/envelopes/7/open", token) is Class.PROMISED
    assert promises.class_of("POST", "/v1/envelopes/7/open", bearer("b")) is Class.OPEN
    assert promises.class_of("POST", "/v1/envelopes/8/open", bearer("a")) is Class.OPEN
    now[0] += PROMISE_S
    assert promises.class_of("POST", "/v1/envelopes/7/open", bearer("a")) is Class.OPEN


def test_promises_take_no_more_memory(promises: Promises, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten; one that is given again is the newest."""
    monkeypatch.setattr(priority, "PROMISES", 2)
    for id_text in ("1", "2", "1", "3"):
        promises.note("a", id_text)
    assert [promises.holds(bearer("a"), id_text) for id_text in ("1", "2", "3")] == [True, False, True]


def test_a_place_is_for_an_hour() -> None:
    """The same within an hour, however often one asks; with the next hour most users have another."""
    places = Places()
    users = [b"Bearer %d" % number for number in range(2_000)]
    first = [places.of(user, 0.0) for user in users]
    assert [places.of(user, HOUR_S - 1) for user in users] == first
    then = [places.of(user, HOUR_S) for user in users]
    assert sum(a != b for a, b in zip(first, then, strict=True)) > len(users) * 0.9
    assert set(first) == set(range(PLACES))
    counts = [first.count(place) for place in range(PLACES)]
    assert max(counts) < 4 * len(users) / PLACES


def test_nobody_can_choose_a_place() -> None:
    """Each gateway process has a key of its own."""
    users = [b"Bearer %d" % number for number in range(200)]
    one, other = Places(), Places()
    assert [one.of(user, 0.0) for user in users] != [other.of(user, 0.0) for user in users]


def test_a_user_has_one_place_whatever_their_token() -> None:
    """Signing in again, or writing `Bearer` otherwise, gains nothing; what is no token has a place, too."""
    places, key = Places(), "k" * 32
    for number in range(20):
        tokens = [sign(key, f"user-{number}", issued, issued + 60) for issued in (1, 2, 3)]
        headers = [f"{scheme} {token}".encode() for token in tokens for scheme in ("Bearer", "bearer", "BEARER")]
        assert len({places.of(header, 0.0) for header in headers}) == 1
    for odd in (b"", b"Bearer", b"Bearer a.b.c", b"Bearer ..", b"Bearer \xff.\xff.\xff", b"Basic x"):
        assert 0 <= places.of(odd, 0.0) < PLACES


def test_what_is_remembered_of_a_stranger_is_short(promises: Promises) -> None:
    """Anybody can send long headers, before any of them is refused: none of them stays, and they have a place."""
    places, before = Places(), priority._remembered.cache_info().currsize
    long = [b"Bearer %d." % number + b"x" * 60_000 for number in range(20)]
    assert len({places.of(one, 0.0) for one in long}) > 1
    assert all(promises.class_of("POST", "/v1/envelopes/7/open", one) is Class.OPEN for one in long)
    assert priority._remembered.cache_info().currsize == before
    assert all(len(priority._user(one)) <= 64 for one in long)


def test_a_long_token_names_its_user_too(promises: Promises) -> None:
    """One of an app that writes more into it than we need."""
    claims = urlsafe_b64encode(b'{"sub":"a","more":"' + b"x" * 1_200 + b'"}')
    promises.note("a", "7")
    assert promises.class_of("POST", "/v1/envelopes/7/open", b"Bearer h." + claims + b".s") is Class.PROMISED
