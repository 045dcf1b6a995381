"""Plays it: finds the best, then each step, a retry storm, calm, and one hot envelope.

Everything runs on this machine, the crowd included. Each step is a crowd of its own, which comes once all payouts of
the one before are made: what one leaves behind does not meet the next.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from installation.access import Access
from installation.finding import find
from loadtest.bench.cputime import used_s
from loadtest.idle_stack import idle_stack
from loadtest.openloop import opens as envelopes
from loadtest.overload import faults
from loadtest.overload.crowd import Opens, Phase, Played, play, write_opens
from loadtest.overload.figures import Overload, Step, make_report
from loadtest.run_proof import all_paid, audit_when_paid
from local import running
from local.config import StackConfig
from local.stack import Stack
from runtime import postgres

SETS: Final = 1
GATEWAYS: Final = 2
"""On one port: with one gateway process its core would be the limit, and half of the machine idle."""
USERS: Final = 5_000
HOT_USERS: Final = 20_000
HOT_SHARES: Final = 100
STEPS: Final = (0.5, 1.0, 1.5, 2.0, 3.0)
STORM: Final = 1.5
CALM_S: Final = 6.0
REPEATS: Final = 3
RAMP: Final = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
LEAST_OPENS: Final = 60_000.0
"""Envelopes for so many are made at a time, so that a crowd seldom waits for them."""
FIRST_GUESS: Final = 16_000.0
"""Opens a second with which the search for the best begins."""
_CLAIMS: Final = "SELECT count(*) FROM claim WHERE envelope_id = $1 AND amount_fen > 0 AND user_id <> ''"
Say = Callable[[str], None]


@dataclass
class Arena:
    """The running stack, and the prepared opens; those behind `opens.at` have not been sent."""

    access: Access
    folder: Path
    opens: Opens
    pids: dict[str, int]

    async def play(self, phases: Sequence[Phase]) -> tuple[Played, float]:
        """Let a crowd come; returns what it saw, and the CPU seconds of all gateways meanwhile."""
        await all_paid(self.access)
        if self.opens.at + int(sum(one.seconds * one.rate for one in phases) * 1.1) > self.opens.count:
            self.opens = await _more(self.access, self.folder, phases)
        before = self._gateways_s()
        played = await play(self.access, self.opens, phases)
        return played, self._gateways_s() - before

    def _gateways_s(self) -> float:
        return sum(used_s(pid) for name, pid in self.pids.items() if name.startswith("gateway"))


async def run(say: Say, *, quick: bool, seconds: float | None = None) -> Overload:
    """Start a stack in a scratch folder, play everything on it, and prove the money."""
    step_s = seconds or (1.5 if quick else 4.0)
    with tempfile.TemporaryDirectory(prefix="hongbao-overload-") as name:
        scratch = Path(name)
        # Postgres, which may run as another account, passes through.
        scratch.chmod(0o711)
        say("starting everything")
        config = StackConfig(
            scratch / "data", port=0, sets=SETS, servers=1, gateways=GATEWAYS, ahead_days=1, notify=lambda _: None
        )
        async with idle_stack(config) as stack:
            arena = await _arena(stack, scratch)
            say("warming up")
            await arena.play([Phase("warm up", 1.0, FIRST_GUESS / 4)])
            best = await _best(arena, step_s / 2, say)
            steps = [await _step(arena, best, times, step_s, say) for times in STEPS]
            say("a retry storm, then calm")
            half = best / 2
            storm = [
                Phase("half", step_s, half),
                Phase("storm", step_s, STORM * best, REPEATS),
                Phase("calm", CALM_S, half),
            ]
            stormed, _ = await arena.play(storm)
            say(f"{HOT_USERS:,} people at one envelope of {HOT_SHARES} shares")
            hot, taken = await _hot(arena)
            say("waiting for payouts, then the audit")
            proof = await audit_when_paid(arena.access)
        found = await faults.run(best, scratch, step_s, say)
    return make_report(best, steps, stormed, hot, taken, HOT_SHARES, proof, found)


async def _arena(stack: Stack, scratch: Path) -> Arena:
    folder = scratch / "crowd"
    folder.mkdir(mode=0o700)
    access = find(stack.folder.path)
    pids = {part.name: part.pid for part in running.load(stack.folder.running).parts}
    return Arena(access, folder, Opens(folder, folder, 0), pids)


async def _more(access: Access, folder: Path, phases: Sequence[Phase]) -> Opens:
    """Make envelopes for what these phases open, and some more for the next."""
    wanted = int(max(LEAST_OPENS, sum(one.seconds * one.rate for one in phases) * 1.2))
    made = await envelopes.create(access, wanted // envelopes.SHARES + 1, envelopes.SHARES)
    await all_paid(access)
    return write_opens(access, made, USERS, envelopes.SHARES, folder)


async def _best(arena: Arena, seconds: float, say: Say) -> float:
    """Return the most useful answers a second of crowds that grow until fewer than nine in ten are served."""
    best = 0.0
    for part in RAMP:
        rate = FIRST_GUESS * part
        say(f"the best: {rate:,.0f}/s")
        played, _ = await arena.play([Phase("ramp", seconds, rate)])
        seen = played.phases[0]
        best = max(best, seen.useful_per_s)
        if seen.useful_per_s < 0.9 * rate:
            break
    return best


async def _step(arena: Arena, best: float, times: float, seconds: float, say: Say) -> Step:
    say(f"{times:g} times the best: {times * best:,.0f}/s")
    played, gateways_s = await arena.play([Phase(f"{times:g}", seconds, times * best)])
    return Step(times=times, seen=played.phases[0], gateways_s=gateways_s)


async def _hot(arena: Arena) -> tuple[Played, int]:
    """Let HOT_USERS come to one envelope within a second; returns what they saw, and how many shares are taken."""
    access = arena.access
    (made,) = await envelopes.create(access, 1, HOT_SHARES)
    folder = arena.folder / "hot"
    folder.mkdir()
    opens = write_opens(access, [made], HOT_USERS, HOT_USERS, folder)
    await all_paid(access)
    played = await play(access, opens, [Phase("hot", 1.0, float(HOT_USERS))])
    home = access.topology().set_for(int(made.envelope_id)).name
    connection = await postgres.connect(access.set_dsn(home))
    try:
        taken = await connection.fetchval(_CLAIMS, int(made.envelope_id))
    finally:
        await connection.close(timeout=postgres.CONNECT_S)
    return played, int(taken)
