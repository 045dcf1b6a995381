"""A process of its own (`tests.forks`) that forgets a user and ends, without a goodbye, at a crash point."""

import asyncio
import os
import signal
from datetime import date

from archive.place import Archive
from archive.store import root_of
from days import crash_points
from tests.integration.users.fixtures import BY, HEADER_KEY
from users import forget as forgetting
from users.installed import Installed, SetPlace


def forget_and_die(told: dict) -> None:
    """Forget as `told`: DSNs, folder, user, day; killed when it reaches the point for the `nth` time."""
    archive = Archive(root_of(told["folder"]), told["archive_key"].encode())
    places = [SetPlace(*one, lambda _: range(told["slots"])) for one in told["sets"]]
    at = Installed(places, *told["wallet"], archive, HEADER_KEY)
    left = told["nth"]

    def die(point: str) -> None:
        nonlocal left
        left -= point == told["point"]
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    forgetting.CACHES_S = 0.0
    with crash_points.armed(die):
        asyncio.run(forgetting.forget(at, told["user"], BY, date.fromisoformat(told["today"])))
