"""How much of everything the growth section makes."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.bench.oneset import Tables

SHARES = 20


@dataclass(frozen=True)
class Size:
    """`drawn` opens are made at each step, `turn_envelopes` opened in each turn; `set_*` is the work of each SET."""

    alive: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000)
    drawn: int = 40_000
    tables: Tables = Tables(slots=1_000, days=30)  # noqa: RUF009 - frozen
    claims: int = 10_000_000
    turn_envelopes: int = 5_000
    rounds: int = 7
    set_envelopes: int = 200
    set_shares: int = 100
    set_rounds: int = 5


QUICK = Size((1_000, 10_000, 100_000), 20_000, Tables(slots=250, days=3), 1_000_000, 1_500, 3, 100, 100, 3)
TINY = Size((50, 100), 50, Tables(slots=20, days=2), 4_000, 20, 1, 4, 10, 1)
"""For tests."""
