"""How large a test is: what is long by nature has its full size with `./test --all` and a short form otherwise."""

import os
from typing import TypeVar

FULL = "HONGBAO_TESTS_FULL"
"""Set by `--all`, for the workers too."""


T = TypeVar("T")


def sized(full: T, short: T) -> T:
    """Return `full` with `--all`, else `short`. For test modules: it is known once the command line was read."""
    return full if os.environ.get(FULL) else short
