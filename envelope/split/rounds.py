"""Hands out what a draw left over, or takes back what it gave too much, within the bounds of a share.

Each round moves every share that has room by max(1, what is left div how many they are), or by what room it has, in the
order first, first + 1, …, wrapping round, until nothing is left. A random `first` keeps all positions alike.
"""


def settle(drawn: list[int], left: int, most: int, first: int) -> None:
    """Add `left` (or take, where it is negative) so that every number stays within 0..most."""
    sign = 1 if left > 0 else -1
    left = abs(left)
    order = [*range(first, len(drawn)), *range(first)]
    # Terminates: a round in which every share has room leaves less than one for each, and the next round spends that.
    while left:
        order = [i for i in order if (drawn[i] < most if sign > 0 else drawn[i] > 0)]
        step = max(1, left // len(order))
        for i in order:
            move = min(step, most - drawn[i] if sign > 0 else drawn[i], left)
            drawn[i] += sign * move
            left -= move
