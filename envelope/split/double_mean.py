"""DOUBLE_MEAN, 二倍均值: each share is uniform from 1 fen to twice the mean of what is left, less 1 fen.

Source: the rule that nearly every public account of WeChat's split gives, "random between 0.01
and twice the remaining average" (额度在 0.01 和剩余平均值 x 2 之间). Public code computes it with floats
or a floored mean, so its early positions get less. Here it is exact: with n people left and s fen left
above 1 fen for each,

    share = 1 + y,  y uniform on 0..u,  where u = 2s/n rounded down or up at random so that its mean is 2s/n.

Then E[y] = s/n whatever s is, so every position has the same mean, total / count; by induction also the
last, which takes what is left. y never exceeds s because ceil(2s/n) <= s for n >= 2. The spread grows with
the position: late shares depend on what the earlier ones left.

One word of the stream per share but the last. With parts = n, 2s = a * parts + b (0 <= b < parts):

    x = below(parts * (a + 1) * (a + 2));   size = a + 2 if x mod parts < b else a + 1;
    y = (x div parts) mod size

which is uniform for either size, because x div parts is uniform below (a + 1)(a + 2), a multiple of both.
"""

from envelope.split.stream import Stream


def split(total_fen: int, count: int, stream: Stream, *, more_parts: int = 0) -> list[int]:
    """Return `count` shares in fen. `more_parts` is 1 for DOUBLE_MEAN_NARROW (see there), else 0."""
    below = stream.below
    spare_fen = total_fen - count
    shares = []
    for parts in range(count + more_parts, 1 + more_parts, -1):
        a, b = divmod(2 * spare_fen, parts)
        above, pick = divmod(below(parts * (a + 1) * (a + 2)), parts)
        y = above % (a + 2 if pick < b else a + 1)
        spare_fen -= y
        shares.append(1 + y)
    shares.append(1 + spare_fen)
    return shares
