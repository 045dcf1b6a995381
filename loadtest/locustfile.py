"""What `python -m locust -f loadtest/locustfile.py` loads: the people of the profile, their shape, and bookkeeping.

`./run loadtest` writes the plan and starts it; see `loadtest.load`. Never imported by anything else: locust patches
the process that imports it.

locust puts this folder in front of the import path while it loads this file, and its modules would hide others of the
same name. So the checkout takes the folder's place from the first line on.
"""
# ruff: noqa: E402

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:] = [str(_HERE.parent) if one == str(_HERE) else one for one in sys.path]

import time
from typing import Any

import gevent  # type: ignore[import-untyped]
import msgspec
from locust import LoadTestShape, events
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from loadtest.users.crowds import CROWDS
from loadtest.users.world import World

PROGRESS_S = 0.5
WORLD = World.from_environment()


People = type("People", (CROWDS[WORLD.plan.profile],), {"world": WORLD, "host": WORLD.plan.url})
"""The people of this run's profile; locust finds the class by its base."""


class Phases(LoadTestShape):
    """As many people as the profile says for the time since the start."""

    def tick(self) -> tuple[int, float] | None:
        """Say how many there should be now, and how quickly they come or go (locust, once a second)."""
        plan = WORLD.plan
        users = WORLD.profile.users_at(time.perf_counter() - self.start_time, plan.seconds, plan.users)
        return None if users is None else (users, float(max(plan.users, 10)))


def _begin(environment: Environment, **_: Any) -> None:
    if isinstance(environment.runner, MasterRunner):
        WORLD.begin(0)
        return
    WORLD.begin(environment.runner.worker_index if isinstance(environment.runner, WorkerRunner) else 0)
    gevent.spawn(_note_seconds, environment)


def _note_seconds(environment: Environment) -> None:
    """Record once a second how many people there are and how busy this process is."""
    at, cpu = time.perf_counter(), time.process_time()
    while environment.runner is not None and environment.runner.state not in ("stopped", "stopping"):
        gevent.sleep(1.0)
        now, used = time.perf_counter(), time.process_time()
        WORLD.second(environment.runner.user_count, (used - cpu) / (now - at))
        at, cpu = now, used


def _watch(environment: Environment, **_: Any) -> None:
    if not isinstance(environment.runner, WorkerRunner):
        gevent.spawn(_tell_progress, environment)


def _tell_progress(environment: Environment) -> None:
    """Keep a small file current from which the command shows progress; only the process that sees all writes it."""
    path = Path(WORLD.plan.folder) / "progress.json"
    while environment.runner is not None:
        total = environment.runner.stats.total
        seen = {
            "phase": WORLD.phase.name if total.num_requests else "starting",
            "users": environment.runner.user_count,
            "requests": total.num_requests,
            "rate": total.current_rps,
        }
        aside = path.with_suffix(".new")
        aside.write_bytes(msgspec.json.encode(seen))
        aside.replace(path)
        gevent.sleep(PROGRESS_S)


def _write(**_: Any) -> None:
    """Write what this process saw; a master has seen nothing itself."""
    if WORLD.tally.latency:
        WORLD.write()


for _event, _listener in ((events.init, _watch), (events.test_start, _begin), (events.quit, _write)):
    _event.add_listener(_listener)  # type: ignore[no-untyped-call]
