"""LINE_SEGMENTS, 线段切割法: the total is a line of fen, count - 1 distinct cuts make count segments.

Every way to write the total as an ordered sum of `count` positive numbers is equally likely, so all
positions have the same distribution: P(share > x) = C(total - 1 - x, count - 1) / C(total - 1, count - 1),
close to exponential, with mean total / count. Small shares are frequent and a large one can take nearly
all: the wildest of the ways.

The cuts are a sample without repetition from 1..m, m = total - 1, by Floyd's method (Bentley and Floyd, "A
sample of brilliance", CACM 30(9), 1987): for j = m - k + 1 .. m, with k = count - 1:  t = 1 + below(j);
take t, or j if t is already taken. Exactly k draws, however dense the cuts are.

With a least share, the line is shorter by what everybody gets beyond 1 fen, which is added to each segment. With a
largest share, longer segments are cut off there and the others stretched by one factor until they make the line again
(rounded down; what is left over by that goes round from a random position on, `envelope.split.rounds`); if that
makes a segment too long, once more. So all positions still have one distribution: that of before below the bound,
stretched, and the rest of it at the bound.

    most = largest - (least - 1);  while a segment is above most:  each such is most;  L = sum of those below most,
    W = L + line - sum of all;  each below most becomes itself * W div L
"""

from envelope.split.rounds import settle
from envelope.split.stream import Stream


def split(total_fen: int, count: int, stream: Stream) -> list[int]:
    """Return `count` shares in fen: the lengths of the segments in their order on the line."""
    cuts: set[int] = set()
    for j in range(total_fen - count + 1, total_fen):
        t = 1 + stream.below(j)
        cuts.add(j if t in cuts else t)
    ends = [*sorted(cuts), total_fen]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def split_within(total_fen: int, count: int, stream: Stream, *, min_fen: int, max_fen: int | None) -> list[int]:
    """Return `count` shares in fen, each from `min_fen` to `max_fen` (None: no bound)."""
    lift = min_fen - 1
    segments = split(total_fen - count * lift, count, stream)
    if max_fen is not None:
        _fit(segments, max_fen - lift, stream.below(count))
    return [lift + segment for segment in segments]


def _fit(segments: list[int], most: int, first: int) -> None:
    """Cut off longer segments at `most`, and stretch the others by the same factor, until they make the line again."""
    line = sum(segments)
    while over := [i for i, segment in enumerate(segments) if segment > most]:
        for i in over:
            segments[i] = most
        free = [i for i, segment in enumerate(segments) if segment < most]
        length = sum(segments[i] for i in free)
        wanted = length + line - sum(segments)
        for i in free:
            segments[i] = segments[i] * wanted // length
    settle(segments, line - sum(segments), most, first)
