"""For commands that need a running system: uses the stack that runs on the data folder, or starts one."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from errors import Refused
from installation import data_folder
from installation.access import Access
from installation.finding import find
from installation.sandbox import is_sandbox
from local import running
from local.config import StackConfig
from local.stack import Stack


@contextlib.asynccontextmanager
async def attach_or_start(data: Path | None, play_users: tuple[str, ...] = ()) -> AsyncIterator[Access]:
    """Yield the installation of the data folder while it runs.

    If no stack runs there, one is started for the block (its gateway on any free port of loopback, with these users to
    play with) and stopped at the end.
    """
    try:
        running.load(data_folder.locate(data).running)
    except Refused as refusal:
        if refusal.code != "not_up":
            raise
        sandbox = is_sandbox(data_folder.locate(data))
        config = StackConfig(data=data, port=0, play_users=play_users, sandbox=sandbox)
        config.notify("nothing runs here yet: starting everything for this command; the first time takes some seconds")
        async with Stack(config):
            config.notify("up")
            yield find(data)
            config.notify("stopping; all data is kept")
    else:
        yield find(data)
