"""DOUBLE_MEAN_NARROW, the N + 1 parts way: DOUBLE_MEAN with the mean over one person more than are left.

Source: none that could be cited; the definition is this one.

With n people left and s fen left above 1 fen for each, a share is 1 + y, y uniform on 0..u, u = 2s/(n + 1)
rounded at random as in `envelope.split.double_mean` (parts = n + 1). The total is treated as count + 1
parts: each user gets one part in the mean, 1 + (total - count)/(count + 1) fen, and the last user gets two: their
own and the one that no user drew. Shares are bounded more narrowly for all but the last, who is favoured: a way
for "the last one is the king" games, not for fairness.
"""

from envelope.split import double_mean
from envelope.split.stream import Stream


def split(total_fen: int, count: int, stream: Stream) -> list[int]:
    """Return `count` shares in fen, the last one twice the others in the mean."""
    return double_mean.split(total_fen, count, stream, more_parts=1)
