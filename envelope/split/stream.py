"""The derivation of random numbers from a seed, simple enough to repeat in any language.

    bytes  = SHAKE-256( ASCII("hongbao.split/{version}/{split}/{total_fen}/{count}/{min_fen}/{max_fen}/") + seed )
             (FIPS 202; a bound that was not given is empty, and version 1 has no bounds: it ends with "{count}/")
    words  = bytes cut into 8-byte big-endian unsigned integers, used one after the other, none twice
    below(bound): take the next word w; if w < 2^64 - (2^64 mod bound) the answer is w mod bound,
                  else discard w and take the next (so every answer is equally likely)

Numbers in the prefix are decimal without leading zeros. The prefix keeps two envelopes with the same seed but
another split, total, count or bound from sharing a stream.
"""

import hashlib
import struct

SEED_BYTES = 32
_WORD_BYTES = 8
_WORDS = 1 << 64
# Rejections are rare (every bound is under 2^56): with a few spare words a second squeeze is very unlikely.
_SPARE_WORDS = 4


class Stream:
    """Uniform integers from one seed for one `purpose` (the prefix's own part, without slashes around it).

    `expect` is how many draws to prepare for; more draws squeeze again.
    """

    __slots__ = ("_shake", "_squeezed", "_words")

    def __init__(self, seed: bytes, purpose: str, *, expect: int) -> None:
        prefix = f"hongbao.split/{purpose}/"
        self._shake = hashlib.shake_256(prefix.encode("ascii") + seed)
        self._squeezed = 0
        self._words = iter(self._squeeze(expect + _SPARE_WORDS))

    def below(self, bound: int) -> int:
        """Return an integer from 0 to bound - 1, all equally likely. `bound` is from 1 to 2^64."""
        for word in self._words:
            value = word % bound
            # The block of `bound` words that holds this one is whole: the same test as in the module's docstring.
            if word - value <= _WORDS - bound:
                return value
        self._words = iter(self._squeeze(2 * self._squeezed))
        return self.below(bound)

    def _squeeze(self, words: int) -> tuple[int, ...]:
        # A longer SHAKE output begins with the shorter one: the part squeezed before, all of it drawn, is cut off.
        data = self._shake.digest(words * _WORD_BYTES)[self._squeezed * _WORD_BYTES :]
        fresh = words - self._squeezed
        self._squeezed = words
        return struct.unpack(f">{fresh}Q", data)
