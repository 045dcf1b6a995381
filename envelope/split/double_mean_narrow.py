"""DOUBLE_MEAN_NARROW, the N + 1 parts way: equal parts with a small double mean on top, so that shares differ little.

Source: public accounts of how differences are kept small: the total is cut into N + 1 equal parts; N of them are
given one to each; the last part alone is cut into N by the double mean, and each gets a piece of it on top.

    part  = the larger of total div (N + 1) and the least share
    share = part + y,  the y by DOUBLE_MEAN from 0 fen on, for N people and total - N * part fen

What the division leaves over goes into the last part. If the last part has fewer fen than N, some pieces are 0; where
the total gives everybody the least share and no more, there is no last part. Every position has the same mean,
total / N, and the spread is about that of a total N + 1 times smaller. A largest share bounds the pieces as it bounds
the shares of DOUBLE_MEAN.

Version 1 was a rule of our own: DOUBLE_MEAN with the mean over one person more than are left, which favours the last.
"""

from envelope.split import double_mean
from envelope.split.stream import Stream


def split_within(total_fen: int, count: int, stream: Stream, *, min_fen: int, max_fen: int | None) -> list[int]:
    """Return `count` shares in fen, each from `min_fen` to `max_fen` (None: no bound)."""
    part_fen = max(min_fen, total_fen // (count + 1))
    room = None if max_fen is None else max_fen - part_fen
    return [part_fen + y for y in double_mean.draw(total_fen - count * part_fen, count, stream, most=room)]


def split_version_1(total_fen: int, count: int, stream: Stream) -> list[int]:
    """Return `count` shares in fen, the last one twice the others in the mean.

    With n people left and s fen left above 1 fen for each, a share is 1 + y, y uniform on 0..u, u = 2s/(n + 1) rounded
    at random as in `envelope.split.double_mean`.
    """
    spare_fen = total_fen - count
    shares = []
    for n in range(count, 1, -1):
        y = double_mean.uniform(spare_fen, n + 1, stream)
        spare_fen -= y
        shares.append(1 + y)
    shares.append(1 + spare_fen)
    return shares
