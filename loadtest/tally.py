"""What clients saw: latencies and results by call and by second, and answers that must not happen.

Each process that sends keeps one and writes it to a file; the command merges them. Times are Unix time, so that the
seconds of several processes are the same; a request belongs to the second in which it was sent, or was due.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from loadtest.histogram import Histogram, merged

FAILURES_KEPT: Final = 100
"""Different sentences that are kept; all others are counted as one, for a broken run repeats itself a million times."""
_OTHERS: Final = "other failures"

Won = tuple[str, str, int]
"""Envelope, user, amount in fen: the content of an `opened`."""


class Second(msgspec.Struct):
    """One second of a run: latencies of all calls, and how often each result came.

    `users` is how many people there were; `client_cpu` the share of a core that the busiest sending process took.
    """

    latency: Histogram = msgspec.field(default_factory=Histogram)
    results: dict[str, int] = msgspec.field(default_factory=dict)
    users: int = 0
    client_cpu: float = 0.0


class Tally(msgspec.Struct):
    """Everything that one process saw, from its first request to the last answer."""

    latency: dict[str, Histogram] = msgspec.field(default_factory=dict)
    results: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    seconds: dict[int, Second] = msgspec.field(default_factory=dict)
    failures: dict[str, int] = msgspec.field(default_factory=dict)
    won: list[Won] = msgspec.field(default_factory=list)
    began_at: float = 1e18  # after everything; JSON has no infinity
    ended_at: float = 0.0

    @property
    def span_s(self) -> float:
        """Seconds from the first request to the last answer; 0 when there was none."""
        return max(self.ended_at - self.began_at, 0.0)

    def record(self, call: str, result: str, ms: float, sent_at: float) -> None:
        """Count one answer."""
        self.began_at = min(self.began_at, sent_at)
        if (ended_at := sent_at + ms / 1000) > self.ended_at:
            self.ended_at = ended_at
        latency = self.latency.get(call)
        if latency is None:
            latency = self.latency[call] = Histogram()
            self.results[call] = {}
        latency.record(ms)
        results = self.results[call]
        results[result] = results.get(result, 0) + 1
        second = int(sent_at)
        now = self.seconds.get(second)
        if now is None:
            now = self.seconds[second] = Second()
        now.latency.record(ms)
        now.results[result] = now.results.get(result, 0) + 1

    def fail(self, sentence: str) -> None:
        """Note an answer that must not happen; a run with one of them fails."""
        known = sentence if sentence in self.failures or len(self.failures) < FAILURES_KEPT else _OTHERS
        self.failures[known] = self.failures.get(known, 0) + 1

    def add(self, other: "Tally") -> None:
        """Count everything that another process has seen."""
        for call, latency in other.latency.items():
            self.latency[call] = merged([self.latency.get(call, Histogram()), latency])
            _add(self.results.setdefault(call, {}), other.results[call])
        for at, second in other.seconds.items():
            here = self.seconds.setdefault(at, Second())
            here.latency.add(second.latency)
            _add(here.results, second.results)
            here.users += second.users
            here.client_cpu = max(here.client_cpu, second.client_cpu)
        _add(self.failures, other.failures)
        self.won += other.won
        self.began_at = min(self.began_at, other.began_at)
        self.ended_at = max(self.ended_at, other.ended_at)

    def write(self, path: Path) -> None:
        """Write it to a file in one step: a reader that finds the file finds all of it."""
        aside = path.with_name(f"{path.name}.new")
        aside.write_bytes(msgspec.json.encode(self))
        aside.replace(path)


def read(paths: Iterable[Path]) -> Tally:
    """Read what several processes wrote, as one."""
    whole = Tally()
    for path in sorted(paths):
        whole.add(msgspec.json.decode(path.read_bytes(), type=Tally))
    return whole


def _add(to: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        to[name] = to.get(name, 0) + count
