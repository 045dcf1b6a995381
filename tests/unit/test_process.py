"""How a process tells whoever started it that it is ready."""

import os

import pytest

from errors import Refused
from runtime.http import Readiness
from runtime.process import Stop, tell_ready


async def test_it_says_so_once_it_is() -> None:
    """And closes the file."""
    reads, writes = os.pipe()
    readiness, looks = Readiness(), iter([False, False, True])
    readiness.require("a part", lambda: next(looks))
    await tell_ready(readiness, writes, Stop())
    assert (os.read(reads, 10), os.read(reads, 10)) == (b"ready\n", b"")
    os.close(reads)


async def test_nobody_waits_any_more() -> None:
    """It serves all the same."""
    reads, writes = os.pipe()
    os.close(reads)
    await tell_ready(Readiness(), writes, Stop())
    await tell_ready(Readiness(), -1, Stop())


async def test_a_file_that_is_not_there_is_refused() -> None:
    """By the setting's name."""
    with pytest.raises(Refused, match="HONGBAO_READY_FD: 987654 is no file"):
        await tell_ready(Readiness(), 987654, Stop())
