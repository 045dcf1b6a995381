"""Reads what users' lists show, one list after the other, on one connection of its own.

A list waits for CARDS_S at most, in the queue and for Postgres together: then its job replies with what it has.
"""

import asyncio
from typing import Protocol

from errors import HongbaoError, Unavailable
from runtime import logs, postgres
from setnode.limits import CARDS_QUEUE, CARDS_S, LISTS_LOGGED_PER_S

_log = logs.get("setnode")


class Job(Protocol):
    """One list that must be read. It replies once, by `read` or by `give_up`, and is `replied` then."""

    replied: bool

    async def read(self, session: postgres.Session) -> None:
        """Read, and reply unless more is to come from elsewhere."""

    def give_up(self, error: HongbaoError) -> None:
        """Reply with what there is, or with `error`. Does nothing once it has replied."""


class ListReader:
    """`enqueue` takes a job, `run` owns the task that reads; the session is used by it alone."""

    def __init__(self, session: postgres.Session) -> None:
        self._session = session
        self._queue: asyncio.Queue[Job] = asyncio.Queue(CARDS_QUEUE)
        self._begun: set[Job] = set()
        self._failures = logs.Budget(LISTS_LOGGED_PER_S)

    @property
    def idle(self) -> bool:
        """Whether every job has replied."""
        return all(job.replied for job in self._begun)

    def enqueue(self, job: Job) -> None:
        """Have a job read; raises Unavailable `busy`."""
        if self._queue.full():
            raise Unavailable("busy", "too many lists are being read here; try again shortly")
        asyncio.get_running_loop().call_later(CARDS_S, self._end, job)
        self._begun.add(job)
        self._queue.put_nowait(job)

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            job = await self._queue.get()
            if job.replied:
                continue
            try:
                await job.read(self._session)
            except HongbaoError as error:
                if (left_out := self._failures.spend()) is not None:
                    _log.warning("a list could not be read", error=error.detail, left_out=left_out)
                job.give_up(error)
            except Exception as error:  # noqa: BLE001 - this list alone; the next one is read
                if (left_out := self._failures.spend()) is not None:
                    _log.error("a list could not be read", left_out=left_out, exc_info=error)
                job.give_up(Unavailable("database_unavailable", "the database does not answer; try again shortly"))

    def _end(self, job: Job) -> None:
        self._begun.discard(job)
        job.give_up(Unavailable("busy", "lists are read too slowly here; try again shortly"))
