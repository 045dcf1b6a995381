"""Money: whole fen (1/100 yuan) in an int, checked where it enters the system, written in yuan for people."""

from errors import Refused

FEN_PER_YUAN = 100

# 1,000,000 yuan in one envelope: far above any gift, and small enough that every product the splits form
# (at most about 2 * total^2, see `envelope.split.stream`) stays well inside 64 bits.
MAX_TOTAL_FEN = 100_000_000


def check_fen(value: object, *, name: str, at_least: int = 1, at_most: int = MAX_TOTAL_FEN) -> int:
    """Return `value` if it is a whole number of fen in `at_least..at_most`, both included.

    `name` is the field as the caller knows it (`total_fen`). Raises Refused with code `malformed_amount`
    for anything but an int (a bool, a float, a string of digits), `amount_out_of_range` for an int out of range.
    """
    # In Python a bool is an int; `true` is not an amount of money.
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused("malformed_amount", f"{name} must be a whole number of fen, not {type(value).__name__}.")
    if not at_least <= value <= at_most:
        raise Refused("amount_out_of_range", f"{name} must be from {at_least} to {at_most} fen, but is {brief(value)}.")
    return value


def brief(number: int) -> str:
    """Write an int for an error message: a client may send one of a million digits."""
    if abs(number) < 10**20:
        return str(number)
    return f"a number of {number.bit_length()} bits"


def yuan(fen: int) -> str:
    """Write an amount as yuan with two decimals and no unit: 1234 -> "12.34", -5 -> "-0.05"."""
    whole, cents = divmod(abs(fen), FEN_PER_YUAN)
    return f"{'-' if fen < 0 else ''}{whole}.{cents:02d}"
