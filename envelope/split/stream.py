"""The derivation of random numbers from a seed, simple enough to repeat in any language.

    bytes  = SHAKE-256( ASCII("hongbao.split/{version}/{split}/{total_fen}/{count}/") + seed )     (FIPS 202)
    words  = bytes cut into 8-byte big-endian unsigned integers, used one after the other, none twice
    below(bound): take the next word w; if w < 2^64 - (2^64 mod bound) the answer is w mod bound,
                  else throw w away and take the next (so every answer is equally likely)

Numbers in the prefix are decimal without leading zeros. The prefix keeps two envelopes with the same seed but
another split, total or count from sharing a stream.
"""

import hashlib
import struct

SEED_BYTES = 32
_WORD_BYTES = 8
_WORDS = 1 << 64
# Rejections are rare (every bound is under 2^56): a few spare words make a second squeeze all but impossible.
_SPARE_WORDS = 4


class Stream:
    """Uniform integers from one seed. `expect` is how many will be drawn; more can be, by a new squeeze."""

    __slots__ = ("_next", "_shake", "_words")

    def __init__(self, seed: bytes, *, version: int, split: str, total_fen: int, count: int, expect: int) -> None:
        prefix = f"hongbao.split/{version}/{split}/{total_fen}/{count}/"
        self._shake = hashlib.shake_256(prefix.encode("ascii") + seed)
        self._words: tuple[int, ...] = ()
        self._next = 0
        self._squeeze(expect + _SPARE_WORDS)

    def below(self, bound: int) -> int:
        """Return an integer from 0 to bound - 1, all equally likely. `bound` is from 1 to 2^64."""
        while True:
            if self._next == len(self._words):
                self._squeeze(2 * self._next)
            word = self._words[self._next]
            self._next += 1
            value = word % bound
            # The block of `bound` words that holds this one is whole: the same test as in the module's
            # docstring.
            if word - value <= _WORDS - bound:
                return value

    def _squeeze(self, words: int) -> None:
        # SHAKE's longer output begins with its shorter one, so what was already drawn stays as it was.
        self._words = struct.unpack(f">{words}Q", self._shake.digest(words * _WORD_BYTES))
