"""The body of a create: every way to be wrong has its own stable code, and the same wish the same fingerprint."""

import hashlib
import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from errors import Refused
from gateway.http.body import _check_names
from gateway.parsing.terms import fingerprint, read_terms
from runtime.clock import to_ms

NOW = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)
NOW_MS = to_ms(NOW)
GOOD = {"kind": "lucky", "total_fen": 2000, "count": 20}


def read(body):
    return read_terms(body if isinstance(body, bytes) else json.dumps(body).encode(), NOW_MS)


def test_the_least_body():
    """Kind, sum and count are enough; the rest has defaults."""
    assert msgspec.to_builtins(read(GOOD)) == {
        "kind": "lucky",
        "split": "double_mean",
        "total_fen": 2000,
        "count": 20,
        "greeting": "",
        "to": None,
        "password": None,
        "opens_at_ms": None,
        "expires_in_s": 86_400,
    }


def test_the_fullest_body():
    """Everything that may be said is carried over; receivers come in one order."""
    body = {
        "kind": "equal",
        "total_fen": 1000,
        "count": 2,
        "greeting": "恭喜发财 🧧👨‍👩‍👧",
        "to": ["carol", "bob"],
        "password": "年年有余",
        "opens_at": "2026-11-21T12:00:01.5+08:00",
        "expires_in_s": 60,
        "split": "equal",
    }
    terms = read(body)
    assert (terms.to, terms.opens_at_ms, terms.split) == (["bob", "carol"], NOW_MS + 1500, "equal")
    assert (terms.greeting, terms.password, terms.expires_in_s) == (body["greeting"], body["password"], 60)


SECRET = "password"


def but(**changes):
    return {**GOOD, **changes}


BAD = [
    ("malformed_json", b""),
    ("malformed_json", b"not json"),
    ("malformed_json", b"{"),
    ("malformed_json", b'{"kind":"lucky","total_fen":9,"count":1} {}'),
    ("malformed_json", b"\xff\xfe{}"),
    ("malformed_json", b'{"kind":"lucky","total_fen":9,"count":1,"greeting":"\xff"}'),
    ("malformed_json", b'{"kind":"lucky","total_fen":9,"count":1,"greeting":"\\ud800"}'),
    ("malformed_json", b'{"kind":"lucky","total_fen":NaN,"count":1}'),
    ("wrong_type", b"null"),
    ("wrong_type", b"[]"),
    ("malformed_json", b"["),
    ("malformed_json", b"[" * 60_000),
    ("malformed_json", b"[null]]"),
    ("malformed_json", b'{"kind":1'),
    ("malformed_json", b'{"surprise":1'),
    ("wrong_type", b"5"),
    ("duplicate_field", b'{"kind":"lucky","total_fen":1,"total_fen":2000,"count":1}'),
    ("duplicate_field", b'{"kind":"lucky","total_fen":2000,"count":1,"total_fen":2000}'),
    ("duplicate_field", b'{"kind":"lucky","total_fen":9,"count":1,"c\\u006funt":2}'),
    ("duplicate_field", b'{"kind":"lucky","total_fen":9,"count":1,"to":["a"],"to":null}'),
    ("wrong_type", b'"lucky"'),
    ("missing_field", {}),
    ("missing_field", {"kind": "lucky", "count": 1}),
    ("unknown_field", but(amount=1)),
    ("unknown_field", but(sender="mallory")),
    ("unknown_field", but(**{"x" * 5000: 1})),
    ("unknown_kind", but(kind="Lucky")),
    ("unknown_kind", but(kind="")),
    ("wrong_type", but(kind=None)),
    ("wrong_type", but(kind=1)),
    ("malformed_amount", but(total_fen="2000")),
    ("malformed_amount", but(total_fen=True)),
    ("malformed_amount", but(total_fen=20.0)),
    ("malformed_amount", but(total_fen=20.5)),
    ("malformed_amount", but(total_fen=None)),
    ("malformed_amount", but(total_fen=[1])),
    ("malformed_amount", b'{"kind":"lucky","total_fen":1e999,"count":1}'),
    ("malformed_amount", b'{"kind":"lucky","total_fen":2e3,"count":1}'),
    ("amount_out_of_range", but(total_fen=0)),
    ("amount_out_of_range", but(total_fen=-2000)),
    ("amount_out_of_range", but(total_fen=100_000_001)),
    ("amount_out_of_range", but(total_fen=2**63)),
    ("amount_out_of_range", but(total_fen=10**100)),
    ("malformed_count", but(count="20")),
    ("malformed_count", but(count=False)),
    ("malformed_count", but(count=20.0)),
    ("count_out_of_range", but(count=0)),
    ("count_out_of_range", but(count=-1)),
    ("count_out_of_range", but(total_fen=100_000, count=10_001)),
    ("count_out_of_range", but(count=10**40)),
    ("count_exceeds_total", but(total_fen=19)),
    ("count_exceeds_invited", but(count=3, to=["a", "b"])),
    ("greeting_too_long", but(greeting="福" * 65)),
    ("control_character", but(greeting="a\nb")),
    ("control_character", but(greeting="a\x00b")),
    ("control_character", but(greeting="a\x7fb")),
    ("control_character", but(greeting="a\x85b")),
    ("control_character", but(greeting="a\u2028b")),
    ("control_character", but(greeting="a\u202eb")),
    ("wrong_type", but(greeting=5)),
    ("wrong_type", but(to="bob")),
    ("wrong_type", but(to=[1])),
    ("wrong_type", but(to=[None])),
    ("too_few_users", but(to=[])),
    ("too_many_users", but(to=[f"u{n}" for n in range(101)])),
    ("malformed_user", but(count=1, to=["bob", ""])),
    ("malformed_user", but(count=1, to=["bob\n"])),
    ("malformed_user", but(count=1, to=["b" * 41])),
    ("malformed_user", but(count=1, to=["bób"])),
    ("malformed_user", but(count=1, to=["\u0000"])),
    ("duplicate_user", but(count=1, to=["bob", "carol", "bob"])),
    ("password_length", but(password="")),
    ("password_length", but(password="x" * 33)),
    ("control_character", but(**{SECRET: "a\tb"})),
    ("wrong_type", but(password=1234)),
    ("malformed_opens_at", but(opens_at="")),
    ("malformed_opens_at", but(opens_at="tomorrow")),
    ("malformed_opens_at", but(opens_at="2026-11-21")),
    ("malformed_opens_at", but(opens_at="2026-11-21T13:00:00")),
    ("malformed_opens_at", but(opens_at="2026-11-21T13:00:00+24:00")),
    ("malformed_opens_at", but(opens_at="2026-02-30T13:00:00Z")),
    ("malformed_opens_at", but(opens_at="2026-W47-6T13:00:00Z")),
    ("malformed_opens_at", but(opens_at="\uff12026-11-21T13:00:00Z")),
    ("wrong_type", but(opens_at=1_795_000_000)),
    ("opens_at_out_of_range", but(opens_at="0001-01-01T00:00:00+08:00")),
    ("opens_at_out_of_range", but(opens_at="9999-12-31T23:59:59-08:00")),
    ("opens_at_out_of_range", but(opens_at="2026-11-15T03:59:59Z")),
    ("opens_at_out_of_range", but(opens_at="2026-11-26T04:00:01Z")),
    ("opens_at_out_of_range", but(opens_at="2026-11-24T04:00:01Z", expires_in_s=259_200)),
    ("expires_in_out_of_range", but(expires_in_s=0)),
    ("expires_in_out_of_range", but(expires_in_s=-5)),
    ("expires_in_out_of_range", but(expires_in_s=3 * 86_400 + 1)),
    ("expires_in_out_of_range", but(expires_in_s=2**70)),
    ("wrong_type", but(expires_in_s=1.5)),
    ("wrong_type", but(expires_in_s="60")),
    ("unknown_split", but(split="fair")),
    ("split_not_for_kind", but(split="equal")),
    ("bounds_not_for_kind", but(kind="equal", max_fen=900)),
    ("bounds_not_possible", but(min_fen=0)),
    ("bounds_not_possible", but(max_fen=1)),
    ("wrong_type", but(min_fen="1")),
    ("split_not_for_kind", but(kind="equal", split="bell")),
    ("wrong_type", but(split=1)),
]


@pytest.mark.parametrize(("code", "body"), BAD, ids=lambda one: repr(one)[:60])
def test_bad_bodies(code, body):
    """Each fault is refused with its own code and a sentence of bounded length."""
    with pytest.raises(Refused) as caught:
        read(body)
    assert caught.value.code == code
    assert 10 < len(caught.value.detail) < 250


@pytest.mark.parametrize(
    ("sentence", "body"),
    [
        ("the body must be an object, not an array", b"[]"),
        ("the body must be an object, not a whole number", b"5"),
        ("kind must be a string, not null", but(kind=None)),
        ("total_fen must be a whole number, not a string", but(total_fen="2000")),
        ("total_fen must be a whole number, not a number with a point or an exponent", but(total_fen=20.0)),
        ("total_fen must be a whole number, not true or false", but(total_fen=True)),
        ("expires_in_s must be a whole number or null, not a string", but(expires_in_s="60")),
        ("to must be an array or null, not an object", but(to={})),
        ("to[0] must be a string, not a whole number", but(to=[1])),
        ("the field 'count' is there twice", b'{"kind":"lucky","total_fen":9,"count":1,"count":1}'),
    ],
)
def test_types_are_named_as_json_names_them(sentence, body):
    """A client hears of its own fields in the words of JSON, not in those of a language or library of ours."""
    with pytest.raises(Refused) as caught:
        read(body)
    assert caught.value.detail == sentence


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("totalFen", "there is no field 'totalFen' here; did you mean 'total_fen'?"),
        ("expires_in", "there is no field 'expires_in' here; did you mean 'expires_in_s'?"),
        ("sender", "there is no field 'sender' here; known: kind, total_fen, count, greeting, to, password, opens_at,"),
        ("amount", "there is no field 'amount' here; known: kind, total_fen, count, greeting, to, password, opens_at,"),
    ],
)
def test_an_unknown_field_is_told_which_there_is(name, said):
    """The field that is spelled almost like it, else all that there are."""
    with pytest.raises(Refused) as caught:
        read(but(**{name: 1}))
    assert caught.value.detail.startswith(said)


def test_colons_are_not_names():
    """What looks like a second name inside a text is none."""
    assert read(but(greeting='"count":"count":{"total_fen":')).greeting == '"count":"count":{"total_fen":'


@given(st.binary(max_size=200))
def test_any_bytes_are_terms_or_refused(body):
    """Whatever bytes come, the answer is a refusal (or, by a miracle, terms)."""
    try:
        read(body)
    except Refused:
        return


_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.lists(st.text(max_size=5))


# The first draw of a text loads Unicode's tables, which takes seconds on a busy machine.
@given(st.dictionaries(st.sampled_from(["kind", "total_fen", "count", "to", "greeting", "opens_at", "split"]), _values))
def test_any_object_is_terms_or_refused(changes):
    """Whatever stands in the fields, nothing but a refusal comes of it, and terms are always within the limits."""
    try:
        terms = read({**GOOD, **changes})
    except Refused:
        return
    assert 1 <= terms.count <= min(terms.total_fen, 10_000)
    assert terms.total_fen <= 100_000_000


@pytest.mark.parametrize("split", ["double_mean", "double_mean_narrow", "line_segments", "bell"])
def test_every_lucky_split_can_be_chosen(split):
    """A lucky envelope is cut as its sender says."""
    assert read(but(split=split)).split == split


def test_a_start_just_past_is_now():
    """A create repeated after its start must reach its first answer, so a start some minutes ago is taken."""
    assert read(but(opens_at="2026-11-21T03:55:00Z")).opens_at_ms == NOW_MS - 300_000


def test_fingerprints():
    """The same wish in other words has the same fingerprint, another wish another; defaults count as said."""
    one = fingerprint(read(but(to=["a", "b"], count=1)), "key")
    assert one == fingerprint(read(but(count=1, to=["b", "a"], expires_in_s=86_400, greeting=None)), "key")
    assert len(one) == 64
    others = [
        but(count=2),
        but(total_fen=2001),
        but(greeting="x"),
        but(**{SECRET: "x"}),
        but(**{SECRET: "y"}),
        but(count=1),
    ]
    assert len({one, *(fingerprint(read(body), "key") for body in others)}) == 7


@pytest.mark.parametrize(
    "body",
    [
        GOOD,
        but(greeting="恭喜", split="bell", expires_in_s=60),
        but(count=1, to=["b", "a"], opens_at="2026-11-21T12:00:00+08:00"),
    ],
)
def test_fingerprints_never_change(body):
    """It is the hash of the terms as JSON with sorted names: another one would refuse repeats of older creates."""
    terms = read(body)
    said = {name: value for name, value in asdict(terms).items() if name not in ("min_fen", "max_fen")}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert fingerprint(terms, "key") == hashlib.sha256(text.encode()).hexdigest()
    carried = msgspec.msgpack.decode(msgspec.msgpack.encode(terms))
    assert carried == said


def test_bounds_are_part_of_a_fingerprint():
    """The same create with another bound is another request."""
    bodies = [GOOD, but(min_fen=1), but(max_fen=2000), but(min_fen=1, max_fen=2000), but(min_fen=2)]
    assert len({fingerprint(read(body), "key") for body in bodies}) == len(bodies)


def test_a_pinned_fingerprint():
    """With a password, too, that of one create is what it was on the day it was made."""
    terms = read(but(**{SECRET: "1234"}))
    assert fingerprint(terms, "key") == "4a1dfe1ff0a9ef3d538999643d00d53c7cc8ca9d597e50f78a11a9f0bea7086a"
    assert "1234" not in repr(terms)


def test_a_password_is_fingerprinted_under_a_key():
    """Whoever reads the stored fingerprint cannot try passwords against it."""
    terms = read(but(**{SECRET: "1234"}))
    assert fingerprint(terms, "key") != fingerprint(terms, "other key")


NAMES = st.sampled_from(["kind", "total_fen", "count", "greeting", "to", "password"])
TEXTS = st.text(st.sampled_from('":,\\{}[] ax\u4e2d'), max_size=12)
VALUES = st.one_of(st.integers(), st.none(), TEXTS, st.lists(TEXTS, max_size=3))


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.sampled_from([":", " : "]), st.booleans())
def test_a_name_is_refused_exactly_when_it_is_there_twice(fields, colon, ascii_only):
    """Whatever stands in the values, however colons are spaced: the quick look never misses one, never invents one."""
    pairs = [json.dumps(name) + colon + json.dumps(value, ensure_ascii=ascii_only) for name, value in fields]
    body = ("{" + ",".join(pairs) + "}").encode()
    names = [name for name, _ in fields]
    if len(set(names)) == len(names):
        _check_names(body)
    else:
        with pytest.raises(Refused, match="twice"):
            _check_names(body)


def test_a_body_of_nothing_but_names_is_not_looked_at_closely(monkeypatch):
    """A text full of names is refused before the exact look, which costs the loop milliseconds; what may be is not."""
    most = (GOOD | {"greeting": '"":' * 21, "password": '"":' * 10}) | {"to": [f"user-{n}" for n in range(20)]}
    assert read(most).greeting == '"":' * 21
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(Refused) as caught:
        read(json.dumps(GOOD | {"greeting": '"a":' * 9_000}).encode())
    assert caught.value.code == "duplicate_field"


def test_an_envelope_may_be_prepared_five_days_before():
    """With a day to open; with three days to open, three days before: it always ends within six days."""
    assert read(but(opens_at="2026-11-26T04:00:00Z")).opens_at_ms == NOW_MS + 5 * 86_400_000
    assert read(but(opens_at="2026-11-24T04:00:00Z", expires_in_s=259_200)).opens_at_ms == NOW_MS + 3 * 86_400_000
    with pytest.raises(Refused, match="in the next 3 days"):
        read(but(opens_at="2026-11-25T04:00:00Z", expires_in_s=259_200))


def test_what_is_no_user_or_no_json_is_named():
    """Which of the receivers, and where in the body."""
    with pytest.raises(Refused, match=r"'a b' is not a user ID: 1 to 40 letters"):
        read(but(count=1, to=["bob", "a b"]))
    with pytest.raises(Refused, match=r"not JSON in UTF-8, from byte \d+ on"):
        read(b'{"kind": "lucky", total}')
