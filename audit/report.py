"""The result of an audit: sums of money by where it is, and violations by name."""

from dataclasses import asdict, dataclass, field
from typing import Any

from envelope.money import yuan
from runtime.wording import counted

MOST_SHOWN = 1000
"""Violations kept in full; further ones are only counted, so that they do not fill the memory."""


@dataclass(frozen=True)
class Violation:
    """One broken check: its name, what it is about (envelope, order, account), a sentence, and the fen in question."""

    check: str
    subject: str
    detail: str
    fen: int = 0


@dataclass
class Sums:
    """Money by where it is, in fen. `in_flight`: claimed and not yet credited, or paid in and no envelope yet.

    It includes payouts that are pending or stuck, however old.
    """

    envelopes: int = 0
    claims: int = 0
    paid_in_fen: int = 0
    claimed_fen: int = 0
    refunded_fen: int = 0
    open_fen: int = 0
    credited_fen: int = 0
    in_flight_fen: int = 0
    in_flight: int = 0
    stuck: int = 0
    accounts: int = 0


@dataclass
class Report:
    """The result of one audit; it holds if there is no violation."""

    sums: Sums = field(default_factory=Sums)
    violations: list[Violation] = field(default_factory=list)
    count: int = 0
    unreconciled_fen: int = 0
    parts_by_digest: int = 0
    """Days of a SET, or parts of them, that were proven before and have not changed since."""
    seconds: float = 0.0
    ahead_s: float = 0.0
    """By how much the clock that dates rows is ahead of the databases' own; 0 but in a sandbox."""
    overdue_before_ms: int = 0
    """An open envelope of the SET that is read now is overdue if it ended before this instant (`audit.overdue`)."""

    def age_s(self, row: Any) -> float:
        """Return how old a row of a query is that tells its `age_s` by the database's own clock."""
        return float(row["age_s"]) + self.ahead_s

    @property
    def holds(self) -> bool:
        """Whether no check found a violation (the package says what is checked)."""
        return self.count == 0

    @property
    def failure(self) -> str:
        """Why it does not hold, in a few words; "" if it does."""
        if self.holds:
            return ""
        return f"{counted(self.count, 'violation')}, {yuan(self.unreconciled_fen)} yuan unreconciled"

    def add(self, check: str, subject: object, detail: str, fen: int = 0) -> None:
        """Record a violation."""
        self.count += 1
        self.unreconciled_fen += abs(fen)
        if len(self.violations) < MOST_SHOWN:
            self.violations.append(Violation(check, str(subject), detail, abs(fen)))

    def keep_common(self, other: "Report") -> None:
        """Keep only the violations that another audit has found as well; those that were only counted stay counted."""
        named = {(one.check, one.subject) for one in other.violations}
        only_here = [one for one in self.violations if (one.check, one.subject) not in named]
        if other.count > len(other.violations):
            return  # it does not name all that it has found
        self.violations = [one for one in self.violations if (one.check, one.subject) in named]
        self.count -= len(only_here)
        self.unreconciled_fen -= sum(one.fen for one in only_here)

    def as_json(self) -> dict[str, Any]:
        """Return the report as builtins."""
        return {
            "holds": self.holds,
            "unreconciled_fen": self.unreconciled_fen,
            "violation_count": self.count,
            "violations": [asdict(violation) for violation in self.violations],
            **asdict(self.sums),
            "parts_by_digest": self.parts_by_digest,
            "seconds": round(self.seconds, 3),
        }
