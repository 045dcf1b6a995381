"""The audit of everything, when an operator asks for it: one at a time, in a thread, its result kept for the page."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from errors import HongbaoError, Refused
from installation.access import Access
from runtime import logs
from schema import jobs
from schema.jobs import Job

SHOWN = 200
"""Violations that the page gets; `./run audit --json` has more."""
_log = logs.get("ops")


class Audits:
    """Runs and keeps. An audit reads and proves, and changes nothing (but the digests of days that it has proven)."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._task: asyncio.Task[None] | None = None
        self._begun = ""
        self._last: dict[str, Any] = {"state": "none"}

    def begin(self) -> dict[str, Any]:
        """Begin one; raises Refused `audit_under_way`."""
        if self._task is not None and not self._task.done():
            raise Refused(
                "audit_under_way", f"an audit is under way since {self._begun}; its result will be shown here"
            )
        self._begun = datetime.now(UTC).isoformat(timespec="seconds")
        self._task = asyncio.create_task(self._run(self._begun), name="audit")
        return self.last()

    def last(self) -> dict[str, Any]:
        """Return the result of the last one, and whether one is under way."""
        return {**self._last, "running": self._task is not None and not self._task.done()}

    def short(self) -> dict[str, Any]:
        """Return the same without the violations."""
        return {key: value for key, value in self.last().items() if key != "violations"}

    async def close(self) -> None:
        """Forget one that is under way. A process waits at its end for the thread: the audit finishes, or is killed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self, begun: str) -> None:
        try:
            # It computes for seconds: in a thread with a loop of its own the page is served meanwhile.
            report = await asyncio.to_thread(lambda: asyncio.run(self._access.audit()))
        except HongbaoError as error:
            self._last = {"state": "failed", "at": begun, "code": error.code, "detail": error.detail}
            await self._note(error.detail)
        except Exception as error:  # noqa: BLE001 - whatever it is, the page is told, and the log has it
            _log.exception("the audit failed")
            self._last = {"state": "failed", "at": begun, "code": "internal_error", "detail": type(error).__name__}
            await self._note(f"{type(error).__name__}: {error}")
        else:
            found = report.as_json()
            self._last = {"state": "done", "at": begun, **found, "violations": found["violations"][:SHOWN]}
            await self._note(report.failure)

    async def _note(self, failure: str) -> None:
        """Note it as that of the command is noted; the page's result stays what it is if that fails."""
        try:
            await jobs.note(self._access.wallet_dsn(), Job.AUDIT, failure or None)
        except HongbaoError as error:
            _log.warning("that the audit ran is not on record", code=error.code, error=error.detail)
