"""What the project promises, as ratios within one run: machines differ, ratios less."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from loadtest.bench.latency import p99_ms_at

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


RATIOS: Final[tuple[Ratio, ...]] = (
    Ratio(
        "create_vs_open",
        "create over HTTP / open over HTTP",
        0.5,
        lambda s: float(s["http"]["creates_per_second"] / s["http"]["opens_per_second"]),
    ),
    Ratio(
        "p99_ms_half_load",
        "open loop at 50 % of saturation, p99 ms",
        20.0,
        lambda s: p99_ms_at(s["latency"], 0.5),
        most=True,
    ),
)
