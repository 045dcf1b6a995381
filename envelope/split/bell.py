"""BELL: most shares near the mean, few at the ends, none above about twice the mean.

Source: the "square, draw, root" method (`xRandom`) that is copied in many public shop systems: a number
drawn below a square and rooted again (先平方, 再开方) is the likelier the larger it is; laid from both
ends it makes a tent over the mean. The original needs a maximum from the caller, uses floats and spreads
what is left fen by fen from the first share; here the maximum follows from the mean, and the rest starts
at a random share so that all positions are alike.

With s = total - count the fen above 1 fen for each, and w = ceil(s / count):

    x = below(2 * (w + 1)^2);  root = isqrt(x div 2);  y = root if x is even, else 2w - root   (0 <= y <= 2w)

one word per share; the share is 1 + y. Then first = below(count), and the difference d between s and the
sum of all y is spread by rounds over the shares that still have room (y < 2w if d > 0, y > 0 if d < 0), in
the order first, first + 1, …, wrapping round: each round moves every one of them by max(1, |d| div how
many they are) or what room it has, until nothing is left.
"""

from math import isqrt

from envelope.split.stream import Stream


def split(total_fen: int, count: int, stream: Stream) -> list[int]:
    """Return `count` shares in fen, each from 1 to 1 + 2 * ceil((total - count) / count)."""
    spare_fen = total_fen - count
    width = -(-spare_fen // count)
    bound = 2 * (width + 1) ** 2
    drawn = []
    for _ in range(count):
        root, odd = divmod(stream.below(bound), 2)
        root = isqrt(root)
        drawn.append(2 * width - root if odd else root)
    _settle(drawn, spare_fen - sum(drawn), 2 * width, stream.below(count))
    return [1 + y for y in drawn]


def _settle(drawn: list[int], left: int, most: int, first: int) -> None:
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
