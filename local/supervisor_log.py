"""What a stack reports while it runs: on the operator's terminal, and with the time in `logs/supervisor.log`."""

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from machine.logfile import LogFile

Notify = Callable[[str], None]
"""Shows one line to the operator."""
ENDED = " ended ("
"""What follows the name of a part that has ended by itself; `local.crashes` counts such lines."""

_encode = msgspec.json.Encoder().encode


class SupervisorLog:
    """A `Notify` that also logs each line as `{"timestamp": …, "event": …}`, the form of the processes' logs."""

    def __init__(self, notify: Notify, log: LogFile) -> None:
        self._notify = notify
        self._log = log

    def __call__(self, line: str) -> None:
        """Show a line and log it; never raises. One of the two is enough: the disk is full, or the terminal is gone."""
        with contextlib.suppress(OSError, ValueError):
            self._notify(line)
        with contextlib.suppress(OSError):
            self._log.set_aside()
            handle = self._log.open()
            try:
                os.write(handle, _encode({"timestamp": datetime.now(UTC).isoformat(), "event": line}) + b"\n")
            finally:
                os.close(handle)
