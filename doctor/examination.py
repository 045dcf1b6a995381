"""Runs all checks at once, each in a thread of its own that nobody waits for longer than its bound.

A thread and not a task: a read of a dead disk cannot be cancelled, and would stand in the way of everything on the same
loop. The threads are daemons, and so are those to which a check hands its own reads (`asyncio.to_thread`, look-ups of
names): the process ends although one of them hangs.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from doctor import (
    archives,
    backup_log,
    certificates,
    clock,
    closed,
    clusters,
    databases,
    days,
    disk,
    events,
    files,
    forgetting,
    jobs,
    open_files,
    parts,
    payouts,
    ports,
    programs,
)  # fmt: skip
from doctor.finding import Finding, Level
from doctor.limits import CHECK_S, PLACE_S
from doctor.place import Place, look
from errors import HongbaoError

Check = Callable[[Place], Iterable[Finding] | Awaitable[Iterable[Finding]]]
"""A check; one that waits for servers is a coroutine function, and runs in an event loop of its own."""

CHECKS: Mapping[str, Check] = {
    "python": programs.python,
    "packages": programs.packages,
    "postgres": programs.postgres,
    "memcached": programs.memcached,
    "optional": programs.optional,
    "clusters": clusters.clusters,
    "databases": databases.databases,
    "private": files.private,
    "secrets": files.secrets,
    "certificates": certificates.certificates,
    "archive": archives.archives,
    "disk": disk.space,
    "open_files": open_files.open_files,
    "clock": clock.clock,
    "ports": ports.ports_taken,
    "parts": parts.parts,
    "restarts": parts.restarts,
    "days": days.days,
    "backup_log": backup_log.backup_log,
    "jobs": jobs.job_runs,
    "closed": closed.closed,
    "payouts": payouts.payouts,
    "events": events.events,
    "forgetting": forgetting.forgetting,
}
"""By their names in --json, in the order in which they are shown."""

_OF_A_RUNNER = ("memcached", "optional", "ports")
"""What concerns a machine on which `./run` starts, and tests run."""

P = ParamSpec("P")
T = TypeVar("T")


def examine(data: Path | None, backups: str = "") -> list[Finding]:
    """Look at the installation of a data folder, its machine and what runs; ends within PLACE_S + CHECK_S.

    Raises Refused `no_server_account`.
    """
    reading = _begin(lambda: look(data, backups))
    if not wait([reading], PLACE_S).done:
        do = "See whether its disk is mounted and answers; then run this again."
        what = f"The files of the data folder could not be read within {PLACE_S:.0f} s."
        return [Finding("installation", Level.WRONG, str(data or "data"), what, do)]
    place = reading.result()
    if place.access is None or place.access.runner:
        return [*place.troubles, *run_checks(CHECKS, place)]
    here = {name: check for name, check in CHECKS.items() if name not in _OF_A_RUNNER}
    return [_as_installed(one) for one in (*place.troubles, *run_checks(here, place))]


def _as_installed(one: Finding) -> Finding:
    """Name the command as it is called where `./run` starts nothing."""
    return msgspec.structs.replace(
        one, what=one.what.replace("./run ", "hongbao "), do=one.do.replace("./run ", "hongbao ")
    )


def run_checks(checks: Mapping[str, Check], place: Place, bound_s: float = CHECK_S) -> list[Finding]:
    """Run them at once and return what they find, in their order; one that takes longer or fails is a finding."""
    begun = {name: _begin(_whole(check, place)) for name, check in checks.items()}
    done = wait(begun.values(), bound_s).done
    ended = {name: future if future in done else None for name, future in begun.items()}
    return [one for name, future in ended.items() for one in _outcome(name, future, bound_s)]


def _whole(check: Check, place: Place) -> Callable[[], list[Finding]]:
    async def awaited() -> list[Finding]:
        found = check(place)
        return list(await found if inspect.isawaitable(found) else found)

    def run() -> list[Finding]:
        with asyncio.Runner() as runner:
            runner.get_loop().set_default_executor(_Daemons())
            return runner.run(awaited())

    return run


def _outcome(name: str, future: "Future[list[Finding]] | None", bound_s: float) -> list[Finding]:
    if future is None:
        what = f"{_about(name)} could not be checked within {bound_s:.0f} s."
        return [Finding(name, Level.WRONG, name, what, "./run status says what does not answer; then run this again.")]
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, (HongbaoError, OSError)):
        what = f"{_about(name)} could not be checked: {getattr(error, 'detail', error)}."
        return [Finding(name, Level.WRONG, name, what, "Mend that, and run this again.")]
    what = f"{_about(name)} could not be checked, by a fault of the check itself: {error!r}."
    return [Finding(name, Level.WRONG, name, what, "Please report it with this sentence.")]


def _about(name: str) -> str:
    return f"What is checked as {name.replace('_', ' ')!r}"


class _Daemons(ThreadPoolExecutor):
    """Gives each call a daemon thread of its own. Python waits for the threads of any other pool before it ends."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Begin the call; a check has a few at once, so they are not counted."""
        return _begin(partial(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave behind what hangs, as `run_checks` leaves its check."""


def _begin(work: Callable[[], T]) -> "Future[T]":
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # it cannot be canceled, so its outcome may always be set

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised, or told, by whoever asks the future
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="doctor").start()
    return future
