"""Profiles of a load test: a row of phases, each with its part of the time, of the people, and their pace."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from errors import InvariantBroken


@dataclass(frozen=True)
class Phase:
    """A part of a run. `users` is the share of all people at its end; from the phase before it goes there evenly.

    `pace_s` is the time between two steps of one person, `sends` the chance that a step sends an envelope.
    """

    name: str
    time: float
    users: float
    pace_s: float
    sends: float = 0.0


@dataclass(frozen=True)
class Size:
    """How large a run is unless the caller says otherwise."""

    users: int
    seconds: int
    groups: int
    shares: int


@dataclass(frozen=True)
class Profile:
    """One kind of run, in full and quick."""

    name: str
    what: str
    phases: tuple[Phase, ...]
    full: Size
    quick: Size

    def __post_init__(self) -> None:
        """Refuse phases that are not one whole run."""
        if not math.isclose(sum(one.time for one in self.phases), 1.0):
            raise InvariantBroken("profile", f"the phases of {self.name} must take all of the time")

    def users_at(self, seconds: float, run_s: float, most: int) -> int | None:
        """Return how many people are there `seconds` after the start; None once the run of `run_s` is over."""
        begins, before = 0.0, 0.0
        for phase in self.phases:
            ends = begins + phase.time * run_s
            if seconds < ends:
                done = (seconds - begins) / (ends - begins)
                return max(1, round(most * (before + (phase.users - before) * done)))
            begins, before = ends, phase.users
        return None

    def phase_at(self, seconds: float, run_s: float) -> Phase:
        """Return the phase `seconds` after the start; after the end the last one."""
        ends = 0.0
        for phase in self.phases:
            ends += phase.time * run_s
            if seconds < ends:
                return phase
        return self.phases[-1]


def _steady(pace_s: float) -> tuple[Phase, ...]:
    return Phase("arriving", 0.1, 1.0, pace_s), Phase("steady", 0.9, 1.0, pace_s)


_PROFILES: Final = (
    Profile(
        "nye",
        "New Year's Eve: calm, countdown, everybody at the stroke of midnight, a long tail",
        (
            Phase("calm", 0.20, 0.2, 2.0, sends=0.05),
            Phase("countdown", 0.20, 1.0, 1.5, sends=0.02),
            Phase("midnight", 0.20, 1.0, 0.25, sends=0.08),
            Phase("tail", 0.40, 0.15, 2.0, sends=0.03),
        ),
        Size(users=600, seconds=180, groups=100, shares=20),
        Size(users=150, seconds=20, groups=25, shares=20),
    ),
    Profile(
        "stampede",
        "all at once and without pause, ten times as many as before; then calm again",
        (
            Phase("calm", 0.25, 0.1, 1.0, sends=0.2),
            Phase("rush", 0.05, 1.0, 0.5),
            Phase("stampede", 0.30, 1.0, 0.02, sends=0.02),
            Phase("leaving", 0.05, 0.1, 1.0),
            Phase("calm again", 0.35, 0.1, 1.0, sends=0.1),
        ),
        Size(users=600, seconds=60, groups=100, shares=20),
        Size(users=150, seconds=20, groups=25, shares=20),
    ),
    Profile(
        "mix",
        "opens, grabs and views as 1 : 20 : 10",
        _steady(0.4),
        Size(users=300, seconds=120, groups=1, shares=20),
        Size(users=150, seconds=20, groups=1, shares=20),
    ),
    Profile(
        "hot",
        "one envelope for everybody",
        _steady(0.5),
        Size(users=300, seconds=120, groups=1, shares=10_000),
        Size(users=150, seconds=20, groups=1, shares=2_000),
    ),
    Profile(
        "groups",
        "small groups, each with envelopes of its own",
        _steady(2.0),
        Size(users=300, seconds=600, groups=100_000, shares=5),
        Size(users=150, seconds=20, groups=2_000, shares=5),
    ),
)

PROFILES: Final[Mapping[str, Profile]] = {one.name: one for one in _PROFILES}
