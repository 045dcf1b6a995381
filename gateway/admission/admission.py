"""The parts of admission wired together, and their windows."""

import asyncio
from collections.abc import Callable, Iterable

from gateway.admission.levels import Levels
from gateway.admission.line import Line
from gateway.admission.priority import Places
from gateway.limits import REQUESTS_PER_TURN, WINDOW_S
from runtime.periodic import Periodic
from wire.link import Link


class Admission:
    """The line of one gateway, and what servers say of theirs. Must be made inside a running event loop."""

    def __init__(self, wallet: Link, waits_s: float) -> None:
        """`waits_s`: how long a client waits for an answer."""
        loop, places = asyncio.get_running_loop(), Places()
        self.line = Line(REQUESTS_PER_TURN, places, loop, waits_s=waits_s)
        self.levels = Levels(places, loop.time, wallet)

    def service(self, links: Callable[[], Iterable[Link]]) -> Periodic:
        """Return what adjusts everything every WINDOW_S; `links` are those to the servers."""

        async def adjust() -> None:
            self.line.adjust()
            self.levels.adjust(links())

        return Periodic("admission", adjust, interval_s=WINDOW_S)
