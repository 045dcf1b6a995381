"""EQUAL: all shares are the same; the fen that cannot be divided go to the first shares, one each.

Share number i (from 0) is  total // count + (1 if i < total % count else 0).  Draws nothing from the stream.
"""


def split(total_fen: int, count: int) -> list[int]:
    """Return `count` shares in fen that differ by at most one fen, the larger ones first."""
    share_fen, left_fen = divmod(total_fen, count)
    return [share_fen + 1] * left_fen + [share_fen] * (count - left_fen)
