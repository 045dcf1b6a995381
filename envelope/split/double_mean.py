"""DOUBLE_MEAN, 二倍均值: each share is uniform from 1 fen to twice the mean of what is left, less 1 fen.

Source: the rule that nearly every public account of WeChat's split gives, "random between 0.01
and twice the remaining average" (额度在 0.01 和剩余平均值 x 2 之间). Public code computes it with floats
or a floored mean, so its early positions get less. Here it is exact: with n people left and s fen left
above the least share for each,

    share = least + y,  y uniform on 0..u,  where u = 2s/n rounded down or up at random so that its mean is 2s/n.

Then E[y] = s/n whatever s is, so every position has the same mean, total / count; by induction also the
last, which takes what is left. y never exceeds s because ceil(2s/n) <= s for n >= 2. The spread grows with
the position: late shares depend on what the earlier ones left.

One word of the stream per share but the last. With 2s = a * n + b (0 <= b < n):

    x = below(n * (a + 1) * (a + 2));   size = a + 2 if x mod n < b else a + 1;
    y = (x div n) mod size

which is uniform for either size, because x div n is uniform below (a + 1)(a + 2), a multiple of both.

With a largest share, let c be the largest less the least one. As long as twice the mean is within it
(2s <= n * c), nothing changes. Beyond, the same rule draws what is missing to the largest share, with
m = n * c - s in the place of s:

    y = c - z,  z uniform on 0..u,  u = 2m/n rounded at random.

So y is uniform about the mean, as far to both sides as the nearer bound allows, and every position still
has the same mean. What is left always fits into the bounds of the others: 0 <= s - y <= (n - 1) * c.
"""

from envelope.split.stream import Stream


def split(total_fen: int, count: int, stream: Stream) -> list[int]:
    """Return `count` shares in fen, each at least 1 (version 1, and version 2 without bounds)."""
    return [1 + y for y in draw(total_fen - count, count, stream)]


def split_within(total_fen: int, count: int, stream: Stream, *, min_fen: int, max_fen: int | None) -> list[int]:
    """Return `count` shares in fen, each from `min_fen` to `max_fen` (None: no bound)."""
    room = None if max_fen is None else max_fen - min_fen
    return [min_fen + y for y in draw(total_fen - count * min_fen, count, stream, most=room)]


def draw(spare_fen: int, count: int, stream: Stream, *, most: int | None = None) -> list[int]:
    """Return `count` numbers from 0 to `most` that sum to `spare_fen`, by the rule above."""
    drawn = []
    for n in range(count, 1, -1):
        if most is None or 2 * spare_fen <= n * most:
            y = uniform(spare_fen, n, stream)
        else:
            y = most - uniform(n * most - spare_fen, n, stream)
        spare_fen -= y
        drawn.append(y)
    drawn.append(spare_fen)
    return drawn


def uniform(spare_fen: int, parts: int, stream: Stream) -> int:
    """Draw uniformly from 0 to twice the mean `spare_fen / parts`."""
    a, b = divmod(2 * spare_fen, parts)
    above, pick = divmod(stream.below(parts * (a + 1) * (a + 2)), parts)
    return above % (a + 2 if pick < b else a + 1)
