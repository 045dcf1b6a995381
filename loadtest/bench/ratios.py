"""What the project promises, as ratios within one run: machines differ, ratios less."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Sections = Mapping[str, Any]


@dataclass(frozen=True)
class Ratio:
    """A figure with its bar; `most` turns the bar round. `of` reads it off the sections, KeyError if they lack it."""

    key: str
    what: str
    bar: float
    of: Callable[[Sections], float]
    most: bool = False

    def judge(self, sections: Sections) -> dict[str, Any] | None:
        """Return value, bar and whether it holds; None where this run has not measured it."""
        try:
            value = self.of(sections)
        except KeyError:
            return None
        return {"value": value, "bar": self.bar, "holds": value <= self.bar if self.most else value >= self.bar}


def _median(contenders: Mapping[str, Any], one: str, other: str) -> float:
    return float(contenders[one]["median"] / contenders[other]["median"])


RATIOS: Final[tuple[Ratio, ...]] = (
    Ratio(
        "create_vs_open",
        "create over HTTP / open over HTTP",
        0.5,
        lambda s: float(s["http"]["creates_per_second"] / s["http"]["opens_per_second"]),
    ),
    Ratio(
        "full_vs_empty",
        "opens/s, a month of full day tables / empty tables",
        0.85,
        lambda s: _median(s["growth"]["tables"]["opens_per_second"], "full", "empty"),
    ),
    Ratio(
        "cpu_1_vs_4_sets",
        "CPU of an open, 1 SET at work / 4 SETs",
        0.9,
        lambda s: _median(s["growth"]["sets"]["cpu_us_per_open"], "1", "4"),
    ),
    Ratio(
        "payout_vs_open",
        "credits/s drained / opens/s committed",
        1.0,
        lambda s: float(s["payouts"]["credits_per_second"] / s["payouts"]["opens_per_second"]),
    ),
    Ratio(
        "bytes_per_envelope",
        "bytes of a live envelope of 20 shares, half opened",
        3_000,
        lambda s: float(s["memory"]["bytes"]["half"]["resident"]),
        most=True,
    ),
)
