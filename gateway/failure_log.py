"""The log of answers that are our fault, 500 and above: one line each, under the ID that the client was told."""

from collections.abc import Callable
from typing import Final

from errors import HongbaoError
from gateway.limits import FAILURES_PER_S
from runtime import logs

_log = logs.get("gateway")
_MS: Final = 1000
_OURS: Final = 500


class FailureLog:
    """Writes each 500, and of the others at most FAILURES_PER_S in a second; the next says how many were left out.

    `set_of` names the SET of an envelope. `server` is the part that was called, if any was, and `call` the name under
    which that part logs why it failed (`wire.messages`): so no call has to carry the request's ID.
    """

    def __init__(self, set_of: Callable[[int], str]) -> None:
        self._set_of = set_of
        self._budget = logs.Budget(FAILURES_PER_S)

    def note(
        self,
        request_id: bytes,
        operation: str,
        status: int,
        error: HongbaoError,
        envelope_id: int | None,
        seconds: float,
    ) -> None:
        """Log a request that was answered with `status` because of `error`."""
        left_out = 0 if status == _OURS else self._budget.spend()
        if left_out is None:
            return
        line = {
            "request_id": request_id.decode(),
            "operation": operation,
            "status": status,
            "code": error.code,
            "error": error.detail,
            "ms": round(seconds * _MS, 1),
        }
        if envelope_id is not None:
            line |= {"envelope": str(envelope_id), "set": self._set_of(envelope_id)}
        if error.peer:
            line |= {"server": error.peer, "call": error.call}
        if left_out:
            line["left_out"] = left_out
        write = _log.error if status == _OURS else _log.warning
        write("answered", **line)
