"""Structured logs: one JSON object per line on standard error. structlog is set up here and nowhere else.

Standard output stays free for the output of commands; `hongbao serve` has it logged there, as container engines expect
(HONGBAO_LOG_STREAM=stdout). A successful open is counted (`runtime.metrics`), not logged.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

_json = msgspec.json.Encoder(enc_hook=str)


def _render(event: Any, **_: Any) -> bytes:
    return _json.encode(event)


def set_up(process: str, level: str | None = None) -> None:
    """Configure logging for this process; `level` defaults to HONGBAO_LOG_LEVEL, else info."""
    name = (level or os.environ.get("HONGBAO_LOG_LEVEL", "info")).upper()
    number = logging.getLevelNamesMapping().get(name, logging.INFO)
    stream = sys.stdout if os.environ.get("HONGBAO_LOG_STREAM") == "stdout" else sys.stderr
    structlog.configure(
        cache_logger_on_first_use=True,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(serializer=_render),
        ],
        logger_factory=structlog.BytesLoggerFactory(stream.buffer),
    )
    structlog.contextvars.bind_contextvars(process=process)
    logging.basicConfig(level=logging.WARNING, handlers=[_Bridge()], force=True)


def get(room: str) -> Any:
    """Return a logger that names its room; call it once per module."""
    return structlog.get_logger(room=room)


class Budget:
    """Lets at most `per_s` lines of a kind be logged in a second, and says how many were left out before."""

    def __init__(self, per_s: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._now = now
        self._second = 0
        self._spent = 0
        self._left_out = 0

    def spend(self) -> int | None:
        """Return how many lines were left out since the last one; None: this one is left out as well."""
        second = int(self._now())
        if second != self._second:
            self._second, self._spent = second, 0
        if self._spent >= self._per_s:
            self._left_out += 1
            return None
        self._spent += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


_GIVEN_UP = "unexpected connection_lost() call"


def _is_an_attempt_given_up(record: logging.LogRecord) -> bool:
    """Say whether asyncio speaks of a connection of asyncpg's that was cancelled while it was made, and then lost.

    Whoever cancelled it, such as `postgres.connect` once another host has answered, wants to hear no more of it.
    """
    error = record.exc_info[1] if record.exc_info else None
    return record.name == "asyncio" and isinstance(error, ConnectionError) and str(error) == _GIVEN_UP


class _Bridge(logging.Handler):
    """Passes the standard library's log records (aiohttp, asyncio, asyncpg) to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        if _is_an_attempt_given_up(record):
            return
        structlog.get_logger(room=record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)
