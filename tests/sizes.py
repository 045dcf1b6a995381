"""How large a test is: what is long by nature has its full size with `./test --all` and a short form otherwise."""

import os

FULL = "HONGBAO_TESTS_FULL"
"""Set by `--all`, for the workers too."""


def sized(full: int, short: int) -> int:
    """Return `full` with `--all`, else `short`. For test modules: it is known once the command line was read."""
    return full if os.environ.get(FULL) else short
