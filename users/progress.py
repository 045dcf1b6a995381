"""Progress of a long command: a line on standard error every few seconds, none for what is over sooner."""

import time
from collections.abc import Callable

from users.limits import PROGRESS_S


class Progress:
    """Counts what was looked at. `say` gets a sentence; `now_s` is a clock in seconds."""

    def __init__(
        self, say: Callable[[str], object] = lambda _: None, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._now_s = now_s
        self._said_at = now_s()

    def at(self, sentence: str) -> None:
        """Say where the command is, if the last sentence, or the beginning, is PROGRESS_S ago."""
        now = self._now_s()
        if now - self._said_at >= PROGRESS_S:
            self._said_at = now
            self._say(sentence)
