"""The promises that every way to split keeps, for all totals, counts and seeds."""

import hashlib
from math import isqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.money import MAX_TOTAL_FEN
from envelope.split import Split, amounts, commitment
from envelope.split.stream import Stream
from envelope.split.ways import check_shares
from errors import InvariantBroken, Refused

DRAWN = [split for split in Split if split is not Split.EQUAL]
GOLDEN_SEED = hashlib.sha256(b"golden").digest()

seeds = st.binary(min_size=32, max_size=32)
ways = st.sampled_from(Split)


@st.composite
def envelopes(draw):
    """Draw a legal (total_fen, count), from the smallest to the largest, often with little to spare."""
    count = draw(st.integers(1, 300))
    spare = draw(st.one_of(st.integers(0, 3), st.integers(0, 5 * count), st.integers(0, MAX_TOTAL_FEN - count)))
    return count + spare, count


@given(ways, envelopes(), seeds)
def test_shares_are_exact(split, envelope, seed):
    """Every way gives `count` shares of at least one fen whose sum is the total."""
    total_fen, count = envelope
    shares = amounts(split, total_fen, count, seed)
    assert len(shares) == count
    assert sum(shares) == total_fen
    assert min(shares) >= 1


@given(ways, envelopes(), seeds)
def test_shares_are_deterministic(split, envelope, seed):
    """The same arguments give the same shares."""
    assert amounts(split, *envelope, seed) == amounts(split, *envelope, seed)


@given(ways, st.integers(1, 300), seeds)
def test_total_of_count_gives_ones(split, count, seed):
    """With as many fen as shares everybody gets one fen."""
    assert amounts(split, count, count, seed) == [1] * count


@given(ways, st.integers(1, MAX_TOTAL_FEN), seeds)
def test_one_share_is_the_total(split, total_fen, seed):
    """A single share is the total."""
    assert amounts(split, total_fen, 1, seed) == [total_fen]


@given(envelopes(), seeds)
def test_equal_shares_differ_by_a_fen_at_most(envelope, seed):
    """Equal shares are as equal as whole fen allow, larger ones first, whatever the seed."""
    total_fen, count = envelope
    shares = amounts(Split.EQUAL, total_fen, count, seed)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] == (1 if total_fen % count else 0)


@given(envelopes(), seeds)
def test_bell_stays_within_its_ends(envelope, seed):
    """No share of a bell is above one fen plus twice the rounded-up mean of what is above one fen."""
    total_fen, count = envelope
    assert max(amounts(Split.BELL, total_fen, count, seed)) <= 1 + 2 * -(-(total_fen - count) // count)


@given(envelopes(), seeds)
def test_double_mean_stays_within_its_bound(envelope, seed):
    """No share but the last is above twice the mean of what was left before it (rounded up), less one fen."""
    left_fen, count = envelope
    for opened, share in enumerate(amounts(Split.DOUBLE_MEAN, left_fen, count, seed)[:-1]):
        assert share <= -(-2 * left_fen // (count - opened)) - 1
        left_fen -= share


@st.composite
def bounded(draw):
    """Draw a legal (total_fen, count, min_fen, max_fen), often with little room at one of the bounds."""
    count = draw(st.integers(1, 60))
    least = draw(st.integers(1, 500))
    room = draw(st.one_of(st.integers(0, 3), st.integers(0, 5_000)))
    spare = draw(st.one_of(st.integers(0, count * room), st.just(0), st.just(count * room)))
    return count * least + spare, count, least, least + room


@given(st.sampled_from(DRAWN), bounded(), seeds)
def test_shares_keep_within_their_bounds(split, envelope, seed):
    """Every drawn way gives shares from the least to the largest whose sum is the total, down to no room at all."""
    total_fen, count, least, most = envelope
    shares = amounts(split, total_fen, count, seed, min_fen=least, max_fen=most)
    assert (len(shares), sum(shares)) == (count, total_fen)
    assert least <= min(shares)
    assert max(shares) <= most
    assert min(amounts(split, total_fen, count, seed, min_fen=least)) >= least
    assert max(amounts(split, total_fen, count, seed, max_fen=most)) <= most


@pytest.mark.parametrize(
    ("bounds", "code", "words"),
    [
        ({"min_fen": 11}, "bounds_not_possible", "need 110, and there are 100"),
        ({"max_fen": 9}, "bounds_not_possible", "make 90, and there are 100"),
        ({"min_fen": 8, "max_fen": 7}, "bounds_not_possible", "from 8 to 7 fen does not exist"),
        ({"min_fen": 0}, "bounds_not_possible", "from 0 to 100 fen does not exist"),
        ({"min_fen": 5, "version": 1}, "bounds_not_for_kind", "from split version 2 on"),
    ],
)
@pytest.mark.parametrize("split", DRAWN)
def test_impossible_bounds_are_refused_with_a_sentence(split, bounds, code, words):
    """Bounds within which no shares make the total, and bounds of a version that had none, are refused."""
    with pytest.raises(Refused) as caught:
        amounts(split, 100, 10, GOLDEN_SEED, **bounds)
    assert caught.value.code == code
    assert words in caught.value.detail


def test_equal_shares_have_no_bounds():
    """They are not drawn: a bound could only be what they are anyway, or impossible."""
    with pytest.raises(Refused, match="bounds_not_for_kind"):
        amounts(Split.EQUAL, 100, 10, GOLDEN_SEED, max_fen=50)


@given(envelopes(), seeds)
def test_narrow_shares_are_a_part_and_a_piece(envelope, seed):
    """N + 1 parts: everybody has a whole part, and all pieces together are the last part and what the division left."""
    total_fen, count = envelope
    part = max(1, total_fen // (count + 1))
    pieces = [share - part for share in amounts(Split.DOUBLE_MEAN_NARROW, total_fen, count, seed)]
    assert min(pieces) >= 0
    assert sum(pieces) == total_fen - count * part


@pytest.mark.parametrize("split", DRAWN)
def test_another_seed_total_or_split_gives_other_shares(split):
    """Seed, total and split all enter the derivation: two envelopes never share their luck."""
    other = hashlib.sha256(b"other").digest()
    base = amounts(split, 20_000, 20, GOLDEN_SEED)
    assert amounts(split, 20_000, 20, other) != base
    assert amounts(split, 20_001, 20, GOLDEN_SEED)[:10] != base[:10]
    assert all(amounts(way, 20_000, 20, GOLDEN_SEED) != base for way in Split if way is not split)


@pytest.mark.parametrize(
    ("split", "total_fen", "count", "shares"),
    [
        ("double_mean", 10, 3, [2, 1, 7]),
        ("double_mean", 100_000_000, 4, [35750272, 5414209, 1831015, 57004504]),
        ("double_mean_narrow", 10, 3, [1, 6, 3]),
        ("double_mean_narrow", 100_000_000, 4, [13562528, 29581665, 35443654, 21412153]),
        ("line_segments", 10, 3, [1, 1, 8]),
        ("line_segments", 100_000_000, 4, [11437756, 47264505, 30349350, 10948389]),
        ("bell", 10, 3, [3, 4, 3]),
        ("bell", 100_000_000, 4, [16107537, 39066345, 24940924, 19885194]),
        ("equal", 10, 3, [4, 3, 3]),
    ],
)
def test_golden_shares(split, total_fen, count, shares):
    """Version 1 gives the same shares for ever."""
    assert amounts(Split(split), total_fen, count, GOLDEN_SEED, 1) == shares


@pytest.mark.parametrize(
    ("split", "bounds", "shares"),
    [
        ("double_mean", {}, [21, 14, 44, 703, 468, 264, 129, 357]),
        ("double_mean", {"min_fen": 200}, [201, 216, 232, 295, 229, 297, 235, 295]),
        ("double_mean", {"max_fen": 300}, [214, 274, 272, 284, 208, 247, 264, 237]),
        ("double_mean", {"min_fen": 150, "max_fen": 280}, [245, 250, 240, 234, 249, 259, 252, 271]),
        ("double_mean_narrow", {}, [240, 245, 247, 227, 240, 276, 225, 300]),
        ("double_mean_narrow", {"min_fen": 200}, [261, 240, 241, 256, 241, 225, 296, 240]),
        ("double_mean_narrow", {"max_fen": 300}, [275, 264, 236, 232, 233, 273, 249, 238]),
        ("double_mean_narrow", {"min_fen": 150, "max_fen": 280}, [245, 239, 227, 244, 262, 250, 277, 256]),
        ("line_segments", {}, [47, 275, 59, 169, 525, 654, 54, 217]),
        ("line_segments", {"min_fen": 200}, [290, 225, 241, 222, 312, 207, 297, 206]),
        ("line_segments", {"max_fen": 300}, [300, 233, 300, 300, 114, 300, 153, 300]),
        ("line_segments", {"min_fen": 150, "max_fen": 280}, [248, 163, 276, 280, 280, 279, 280, 194]),
        ("bell", {}, [244, 235, 162, 255, 203, 232, 329, 340]),
        ("bell", {"min_fen": 200}, [243, 270, 264, 254, 222, 266, 238, 243]),
        ("bell", {"max_fen": 300}, [251, 231, 242, 271, 254, 230, 267, 254]),
        ("bell", {"min_fen": 150, "max_fen": 280}, [250, 258, 250, 252, 250, 243, 263, 234]),
    ],
)
def test_golden_shares_of_version_2(split, bounds, shares):
    """Version 2 gives the same shares for ever, with bounds and without."""
    assert amounts(Split(split), 2_000, 8, GOLDEN_SEED, 2, **bounds) == shares


@pytest.mark.parametrize(
    ("split", "digest"),
    [
        ("equal", "b8b183e050b452df0f579efb38f2f94e0ee1277131192612aaaf86c059655911"),
        ("double_mean", "df007bf6b55390bbf379b0af3ec6d5fdc47b7491e21712d5a5936eecabfad52f"),
        ("double_mean_narrow", "f3dc9036d06b55d98c7b49bb07ec0bfc8be808bc0930dfc68ce7ea67b448ce6c"),
        ("line_segments", "7a685e1ffec1ee96bdf6caa9abd50876025f2f8df7d661e33760d63fcd3c0e43"),
        ("bell", "1f77c544b0b3000ff316e1c4c3160cfa2a0cf0bba6340ec31b3a7fe9ce9e8049"),
    ],
)
def test_golden_shares_of_a_large_envelope(split, digest):
    """Ten thousand shares are the same for ever, too."""
    shares = amounts(Split(split), 12_345_678, 10_000, GOLDEN_SEED, 1)
    assert hashlib.sha256(repr(shares).encode()).hexdigest() == digest


def documented_words(split, total_fen, count):
    """Words as the docstring of `envelope.split.stream` tells a stranger to make them."""
    text = f"hongbao.split/2/{split}/{total_fen}/{count}///".encode() + GOLDEN_SEED
    data = hashlib.shake_256(text).digest(80_000)
    return (int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 8))


def documented_below(words, bound):
    return next(word % bound for word in words if word < 2**64 - 2**64 % bound)


def test_double_mean_follows_its_documentation():
    """Who writes DOUBLE_MEAN from the docstrings alone gets our shares."""
    words, spare, shares = documented_words("double_mean", 54_321, 50), 54_321 - 50, []
    for n in range(50, 1, -1):
        a, b = divmod(2 * spare, n)
        x = documented_below(words, n * (a + 1) * (a + 2))
        y = (x // n) % (a + 2 if x % n < b else a + 1)
        shares.append(1 + y)
        spare -= y
    assert [*shares, 1 + spare] == amounts(Split.DOUBLE_MEAN, 54_321, 50, GOLDEN_SEED)


def test_line_segments_follow_their_documentation():
    """Who writes LINE_SEGMENTS from the docstrings alone gets our shares."""
    words, cuts = documented_words("line_segments", 130, 100), []
    for j in range(129 - 99 + 1, 129 + 1):
        t = 1 + documented_below(words, j)
        cuts.append(j if t in cuts else t)
    line = sorted([0, *cuts, 130])
    assert [line[i + 1] - line[i] for i in range(100)] == amounts(Split.LINE_SEGMENTS, 130, 100, GOLDEN_SEED)


def test_bell_follows_its_documentation():
    """Who writes BELL from the docstrings alone, settling fen by fen, gets our shares."""
    total, count = 130, 100
    words, w, ys = documented_words("bell", total, count), 1, []
    for _ in range(count):
        x = documented_below(words, 2 * (w + 1) ** 2)
        ys.append(2 * w - isqrt(x // 2) if x % 2 else isqrt(x // 2))
    at, left = documented_below(words, count), total - count - sum(ys)
    assert left < 0
    while left:
        if ys[at % count]:
            ys[at % count] -= 1
            left += 1
        at += 1
    assert [1 + y for y in ys] == amounts(Split.BELL, total, count, GOLDEN_SEED)


def test_stream_continues_over_a_second_squeeze():
    """Drawing more words than expected gives what a stream that expected them gives."""
    few, many = (Stream(GOLDEN_SEED, "x", expect=expect) for expect in (0, 100))
    assert [few.below(10**9) for _ in range(100)] == [many.below(10**9) for _ in range(100)]


def test_stream_throws_biased_words_away():
    """A word in the incomplete last block is not used: below 2^63 + 1 about half are thrown away."""
    stream, bound = Stream(GOLDEN_SEED, "x", expect=100), 2**63 + 1
    words = Stream(GOLDEN_SEED, "x", expect=100)
    kept = [word for word in (words.below(2**64) for _ in range(100)) if word < bound]
    assert [stream.below(bound) for _ in kept] == kept
    assert 30 < len(kept) < 70


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": 3}, "unknown_split_version"),
        ({"total_fen": 0}, "amount_out_of_range"),
        ({"total_fen": MAX_TOTAL_FEN + 1}, "amount_out_of_range"),
        ({"total_fen": 10.0}, "malformed_amount"),
        ({"total_fen": True}, "malformed_amount"),
        ({"count": 0}, "count_out_of_range"),
        ({"count": 11}, "count_out_of_range"),
        ({"seed": b"short"}, "malformed_seed"),
    ],
)
@pytest.mark.parametrize("split", Split)
def test_bad_arguments_are_refused(split, change, code):
    """What cannot be split is refused with a stable code, by every way."""
    with pytest.raises(Refused) as caught:
        amounts(**{"split": split, "total_fen": 10, "count": 10, "seed": GOLDEN_SEED} | change)
    assert caught.value.code == code


@pytest.mark.parametrize("shares", [[], [5, 4], [10, 0], [4, 3, 3], [11, -1]])
def test_wrong_shares_break_the_invariant(shares):
    """Shares that miss the total, the count or the least fen raise InvariantBroken."""
    with pytest.raises(InvariantBroken):
        check_shares(shares, 10, 2)


def test_commitment_is_sha256():
    """The commitment is the published SHA-256 of the seed, in lower-case hex."""
    assert commitment(bytes(32)) == "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"
