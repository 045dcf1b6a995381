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
the order first, first + 1, …, wrapping round (`envelope.split.rounds`).

With a least and a largest share, the least one takes the place of 1 fen, and if c = largest - least is below 2w, the
tent stands on 0..c with its top over the mean still, a = w below it and b = c - w above. As in the source, a uniform
draw decides the side, the lower one with probability b/c, which keeps the mean; the distance from the end is a root:

    lower = below(c) < b;   y = isqrt(below((a + 1)^2)) if lower, else c - isqrt(below((b + 1)^2))

two words per share (one if c = 0), then first as before.
"""

from math import isqrt

from envelope.split.rounds import settle
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
    settle(drawn, spare_fen - sum(drawn), 2 * width, stream.below(count))
    return [1 + y for y in drawn]


def split_within(total_fen: int, count: int, stream: Stream, *, min_fen: int, max_fen: int | None) -> list[int]:
    """Return `count` shares in fen, each from `min_fen` to `max_fen` (None: about twice the mean)."""
    lift = min_fen - 1
    spare_fen = total_fen - count * min_fen
    width = -(-spare_fen // count)
    if max_fen is None or max_fen - min_fen >= 2 * width:
        return [lift + share for share in split(total_fen - count * lift, count, stream)]
    most = max_fen - min_fen
    drawn = [_side(width, most - width, stream) for _ in range(count)]
    settle(drawn, spare_fen - sum(drawn), most, stream.below(count))
    return [min_fen + y for y in drawn]


def _side(below: int, above: int, stream: Stream) -> int:
    """Draw a number from 0 to `below + above`, most likely near `below`, which is its mean."""
    most = below + above
    if most and stream.below(most) >= above:
        return most - isqrt(stream.below((above + 1) ** 2))
    return isqrt(stream.below((below + 1) ** 2))
