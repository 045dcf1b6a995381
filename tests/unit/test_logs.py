"""What of the standard library's log records is passed on."""

import logging

import pytest
import structlog

from runtime import logs


@pytest.mark.parametrize(
    ("error", "passed"),
    [
        (ConnectionError("unexpected connection_lost() call"), 0),
        (ConnectionResetError("Connection lost"), 1),
        (KeyError("a bug"), 1),
    ],
)
def test_only_an_attempt_that_was_given_up_is_silent(error: Exception, passed: int) -> None:
    """Asyncio speaks of every future that nobody looked at; that of a connection that was cancelled is no news."""
    record = logging.LogRecord(
        "asyncio", logging.ERROR, __file__, 1, "Future exception was never retrieved", None, (type(error), error, None)
    )
    with structlog.testing.capture_logs() as seen:
        logs._Bridge().emit(record)
    assert len(seen) == passed
