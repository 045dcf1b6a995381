"""locust as processes of their own: one, or a master with workers; started, watched, and always ended."""

import asyncio
import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from errors import Refused, Unavailable
from loadtest.child import start_child, stop_children
from loadtest.tally import Tally, read
from loadtest.users.world import PLAN_VARIABLE, LoadPlan
from machine.checkout import CHECKOUT
from machine.child import Child
from machine.ports import free_port

LOCUSTFILE: Final = CHECKOUT / "loadtest" / "locustfile.py"
HOST: Final = "127.0.0.1"
STEP_END_S: Final = 10
"""Time for people to finish their step before locust ends."""
WEB_STAYS_S: Final = 3
GRACE_S: Final = 90.0
"""Beyond the planned seconds: imports, workers that connect, last steps, statistics."""
POLL_S: Final = 0.25

Progress = Callable[[Mapping[str, Any]], None]
"""Takes {phase, users, requests, rate} a few times a second."""


@dataclass(frozen=True)
class Web:
    """Where locust's own page is, when it is wanted."""

    port: int

    @property
    def url(self) -> str:
        """The page."""
        return f"http://{HOST}:{self.port}"


def check_locust() -> None:
    """Refuse where locust is not installed; it is never imported here."""
    if importlib.util.find_spec("locust") is None:
        raise Refused(
            "no_locust", "locust is not installed; `./run loadtest` installs it, or use requirements/bench.txt"
        )


async def play(plan: LoadPlan, env: Mapping[str, str], web: Web | None, progress: Progress) -> Tally:
    """Run locust to the end of the plan; returns the merged tally of all its processes.

    `plan.folder` must exist and be readable by us alone. Raises Unavailable `locust_failed` with the end of its log.
    """
    folder = Path(plan.folder)
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    env = {**env, PLAN_VARIABLE: str(folder / "plan.json")}
    children: list[Child] = []
    try:
        main_words, worker_words = await _words(plan, web)
        children = [start_child(main_words, env, folder / "locust.log")]
        children += [start_child(worker_words, env, folder / f"worker-{n}.log") for n in range(plan.workers)]
        await _watch(plan, children, progress)
        await asyncio.gather(*(_end(one) for one in children))
    finally:
        await asyncio.shield(stop_children(children))
    tally = read(folder.glob("tally-*.json"))
    if not tally.latency:
        raise Unavailable("locust_failed", f"locust sent nothing\n{_last_words(folder)}")
    return tally


async def _words(plan: LoadPlan, web: Web | None) -> tuple[list[str], list[str]]:
    common = ["-m", "locust", "-f", str(LOCUSTFILE), "--stop-timeout", str(STEP_END_S), "--loglevel", "WARNING"]
    if web is None:
        main = [*common, "--headless", "--only-summary"]
    else:
        main = [*common, "--autostart", "--autoquit", str(WEB_STAYS_S), "--web-host", HOST, "--web-port", str(web.port)]
    if not plan.workers:
        return main, []
    port = str(free_port())
    main += ["--master", "--master-bind-host", HOST, "--master-bind-port", port, "--expect-workers", str(plan.workers)]
    return main, [*common, "--worker", "--master-host", HOST, "--master-port", port]


async def _watch(plan: LoadPlan, children: list[Child], progress: Progress) -> None:
    folder, whole_at = Path(plan.folder), time.monotonic()
    try:
        async with asyncio.timeout(plan.seconds + GRACE_S):
            while children[0].running:
                if all(one.running for one in children):
                    whole_at = time.monotonic()
                elif time.monotonic() > whole_at + STEP_END_S:
                    raise Unavailable("locust_failed", f"a worker has ended early\n{_last_words(folder)}")
                if (folder / "progress.json").exists():
                    progress(msgspec.json.decode((folder / "progress.json").read_bytes()))
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise Unavailable("locust_slow", f"locust has not ended in time\n{_last_words(folder)}") from None
    if children[0].returncode not in (0, 1):
        # 1 says that locust saw a failure: those are in the tally, with words.
        raise Unavailable("locust_failed", f"locust ended with {children[0].returncode}\n{_last_words(folder)}")


async def _end(child: Child) -> None:
    await child.ended_within(STEP_END_S)


def _last_words(folder: Path) -> str:
    logs = [*folder.glob("locust.log"), *sorted(folder.glob("worker-*.log"))]
    return "\n".join("\n".join(log.read_text(errors="replace").splitlines()[-12:]) for log in logs)
