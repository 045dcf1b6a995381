"""The steps in order: calm, the fault, a little more load, rest, the proof, everything whole again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from errors import HongbaoError, Refused
from hosts.drill import changes, faults, restore
from hosts.drill.faults import Heal, Scene
from hosts.drill.journal import Journal
from hosts.drill.load import Load
from hosts.drill.proof import Found, prove
from hosts.region import Region

AFTER_S = 3.0
"""Load goes on for so long after the SET serves again: what comes late comes in this step."""


BEFORE_S = 10.0
"""Alarms of so long before a fault are not its own: of an earlier one, or of a region that has few days ahead."""


@dataclass(frozen=True)
class Step:
    """One step: `letter` is its name with --only, `about` names it in the table. `target` is the SET that suffers."""

    letter: str
    about: str
    act: Callable[[Scene], Awaitable[Heal]]
    target: str = faults.TARGET


STEPS: Sequence[Step] = (
    Step("a", "primary lost", faults.lose_primary),
    Step("b", "primary cut off", faults.cut_off_primary),
    Step("c", "setnode lost", faults.lose_setnode),
    Step("d", "gateway lost", faults.lose_gateway),
    Step("e", "memcached lost", faults.lose_memcached),
    Step("f", "setnode cut off", faults.part_setnode),
    Step("g", "primary frozen", faults.freeze_primary),
    Step("g2", "setnode frozen", faults.freeze_setnode),
    Step("h", "new version", changes.roll),
    Step("i", "live move", changes.move),
    Step("j", "SET restored", restore.lose_and_restore, restore.TARGET),
)
SHORT = ("a", "c", "h")


@dataclass
class Outcome:
    """What became of a step. Silences are the longest time without an answer, in seconds; waits in milliseconds.

    `led_s`: how long it took until another Postgres led, where one was lost.
    """

    step: Step
    seconds: float = 0.0
    acknowledged: int = 0
    silence_s: float = 0.0
    led_s: float | None = None
    other_silence_s: float = 0.0
    calm_p99_ms: float | None = None
    other_p99_ms: float | None = None
    failed: dict[str, int] = field(default_factory=dict)
    unanswered: int = 0
    found: Found = field(default_factory=Found)
    alarms: list[str] = field(default_factory=list)
    """Those of deploy/prometheus that the fault set off; with `?` those that were about to when the step was over."""
    error: str = ""

    @property
    def other_p99(self) -> float | None:
        """How much longer users of the other SETs waited than in calm, as a factor."""
        if not self.calm_p99_ms or self.other_p99_ms is None:
            return None
        return self.other_p99_ms / self.calm_p99_ms

    def as_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        ratio = self.other_p99
        return {
            "step": self.step.letter,
            "about": self.step.about,
            "seconds": round(self.seconds, 1),
            "acknowledged": self.acknowledged,
            "silence_s": round(self.silence_s, 2),
            "led_s": None if self.led_s is None else round(self.led_s, 2),
            "other_silence_s": round(self.other_silence_s, 2),
            "calm_p99_ms": None if self.calm_p99_ms is None else round(self.calm_p99_ms, 1),
            "other_p99_ms": None if self.other_p99_ms is None else round(self.other_p99_ms, 1),
            "other_p99": None if ratio is None else round(ratio, 2),
            "failed_attempts": self.failed,
            "unanswered": self.unanswered,
            "missing": self.found.missing,
            "wrong": self.found.wrong,
            "audit_violations": self.found.audit_violations,
            "alarms": self.alarms,
            "sentences": self.found.sentences[:20],
            "error": self.error,
        }


@dataclass(frozen=True)
class Pace:
    """`rate`: opens a second for each SET. `calm_s`: before each step, longer if `opens` are not reached by then."""

    rate: float
    calm_s: float
    opens: int


def steps_of(letters: Sequence[str]) -> list[Step]:
    """Return steps by their letters, in the order of the drill; raises Refused `unknown_step`."""
    known = {one.letter: one for one in STEPS}
    for letter in letters:
        if letter not in known:
            raise Refused("unknown_step", f"there is no step {letter[:20]!r}; there are {', '.join(known)}")
    return [one for one in STEPS if one.letter in letters]


async def drill(
    region: Region, steps: Sequence[Step], pace: Pace, folder: Path, done: Callable[[Outcome], None]
) -> tuple[list[Outcome], Found, int]:
    """Take the steps; returns what became of each, the last proof of everything, and how many opens were acknowledged.

    `done` hears of each step as it ends. The journal is written into `folder`.
    """
    with Journal(folder / "journal.jsonl") as journal:
        load = Load(region.access(), journal, pace.rate)
        outcomes = []
        async with load.running():
            for number, one in enumerate(steps, start=1):
                outcomes.append(await _take(region, load, one, pace, pace.opens * number // len(steps)))
                done(outcomes[-1])
            await load.rest()
            found = await prove(load, everything=True)
        return outcomes, found, journal.acknowledged


async def _take(region: Region, load: Load, step: Step, pace: Pace, opens: int) -> Outcome:
    """Take a step once so many opens were acknowledged. Whatever fails is told, and the drill goes on."""
    outcome = Outcome(step)
    loop = asyncio.get_running_loop()
    lane = load.lanes[step.target]
    others = [one for one in load.lanes.values() if one is not lane]
    for one in load.lanes.values():
        one.forget()
    before = load.journal.acknowledged
    region.notify(f"{step.letter}: calm")
    calm = loop.time()
    load.go_on()
    # The first seconds after a rest are no calm: everybody begins at once.
    await asyncio.sleep(1.0)
    began_calm = loop.time()
    while loop.time() - calm < pace.calm_s or load.journal.acknowledged < opens:
        await asyncio.sleep(0.1)
    scene = Scene(region, load, lane, loop.time())
    outcome.calm_p99_ms = _worst(one.p99_ms(began_calm, scene.began) for one in others)
    for one in load.lanes.values():
        one.failed.clear()
    region.notify(f"{step.letter}: {step.about}")
    heal: Heal = faults.nothing
    try:
        known = await region.watcher.alarms(BEFORE_S)
        heal = await step.act(scene)
        await asyncio.sleep(AFTER_S)
        ended = loop.time()
        outcome.alarms = [one for one in await region.watcher.alarms(ended - scene.began) if one not in known]
    except HongbaoError as error:
        outcome.error = str(error)
        ended = loop.time()
    outcome.seconds = ended - scene.began
    outcome.led_s = scene.led_s
    outcome.silence_s = lane.longest_silence_s(scene.began, ended)
    outcome.other_silence_s = max((one.longest_silence_s(scene.began, ended) for one in others), default=0.0)
    outcome.other_p99_ms = _worst(one.p99_ms(scene.began, ended) for one in others)
    region.notify(f"{step.letter}: proof")
    await load.rest()
    outcome.failed = dict(sum((one.failed for one in load.lanes.values()), start=type(lane.failed)()))
    outcome.unanswered = len(load.unanswered)
    load.unanswered.clear()
    # Both to their end, whichever fails.
    for result in await asyncio.gather(prove(load), heal(), return_exceptions=True):
        if isinstance(result, Found):
            outcome.found = result
        elif isinstance(result, HongbaoError):
            outcome.error = f"{outcome.error}; {result}".strip("; ")
        elif isinstance(result, BaseException):
            raise result
    outcome.acknowledged = load.journal.acknowledged - before
    return outcome


def _worst(values: "Any") -> float | None:
    return max((one for one in values if one is not None), default=None)
