"""Amounts are whole fen, written as yuan without floats; limits that contradict each other are refused."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.limits import LIMITS, Limits
from envelope.money import MAX_TOTAL_FEN, check_fen, yuan
from errors import InvariantBroken, Refused


@given(st.integers())
def test_yuan_is_exact(fen):
    """Yuan as text is the amount in fen divided by 100, to the last digit."""
    text = yuan(fen)
    assert Decimal(text) * 100 == fen or abs(fen) >= 10**26  # Decimal's own precision ends there
    assert text[-3] == "."


@pytest.mark.parametrize(("fen", "text"), [(1234, "12.34"), (5, "0.05"), (-5, "-0.05"), (-250, "-2.50"), (0, "0.00")])
def test_yuan_has_two_decimals(fen, text):
    """Amounts under one yuan and below zero are written as people write them."""
    assert yuan(fen) == text


@pytest.mark.parametrize("value", [1.0, "1", None, True, [1], Decimal(1)])
def test_what_is_no_int_is_no_amount(value):
    """Floats, strings, booleans and Decimals are refused, never converted."""
    with pytest.raises(Refused) as caught:
        check_fen(value, name="total_fen")
    assert caught.value.code == "malformed_amount"
    assert "total_fen" in caught.value.detail


@pytest.mark.parametrize("value", [0, -1, MAX_TOTAL_FEN + 1, pytest.param(10**5_000, id="absurd")])
def test_amounts_out_of_range_are_refused(value):
    """Zero, negative, too large and absurd amounts are refused with a short sentence."""
    with pytest.raises(Refused) as caught:
        check_fen(value, name="total_fen")
    assert caught.value.code == "amount_out_of_range"
    assert len(caught.value.detail) < 200


@pytest.mark.parametrize("value", [1, MAX_TOTAL_FEN])
def test_the_ends_of_the_range_are_amounts(value):
    """The limits are inclusive."""
    assert check_fen(value, name="total_fen") == value


@pytest.mark.parametrize(
    "change",
    [
        {"max_total_fen": MAX_TOTAL_FEN + 1},
        {"max_count": MAX_TOTAL_FEN + 1},
        {"max_count": 0},
        {"default_expires_in_s": 300_000},
        {"min_expires_in_s": 100_000},
        {"max_expires_in_s": 15 * 86_400},
        {"max_opens_in_s": 6 * 86_400},
        {"max_lives_s": 2 * 86_400},
        {"max_lives_s": 15 * 86_400},
        {"body_bytes": 10_000},
        {"invited_users": 1_000},
    ],
)
def test_limits_that_contradict_are_refused(change):
    """A set of limits whose relations do not hold cannot be made."""
    with pytest.raises(InvariantBroken):
        Limits(**change)


def test_the_largest_create_fits_the_body():
    """The default limits hold their own largest legal call."""
    assert LIMITS.largest_create_bytes <= LIMITS.body_bytes
