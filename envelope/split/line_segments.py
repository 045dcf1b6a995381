"""LINE_SEGMENTS, 线段切割法: the total is a line of fen, count - 1 distinct cuts make count segments.

Every way to write the total as an ordered sum of `count` positive numbers is equally likely, so all
positions have the same distribution: P(share > x) = C(total - 1 - x, count - 1) / C(total - 1, count - 1),
close to exponential, with mean total / count. Small shares are frequent and a large one can take nearly
all: the wildest of the ways.

The cuts are a sample without repetition from 1..m, m = total - 1, by Floyd's method (Bentley and Floyd, "A
sample of brilliance", CACM 30(9), 1987): for j = m - k + 1 .. m, with k = count - 1:  t = 1 + below(j);
take t, or j if t is already taken. Exactly k draws, however dense the cuts are.
"""

from envelope.split.stream import Stream


def split(total_fen: int, count: int, stream: Stream) -> list[int]:
    """Return `count` shares in fen: the lengths of the segments in their order on the line."""
    cuts: set[int] = set()
    for j in range(total_fen - count + 1, total_fen):
        t = 1 + stream.below(j)
        cuts.add(j if t in cuts else t)
    ends = [*sorted(cuts), total_fen]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
