"""Which priorities are admitted: as many requests in a window as can be done, the first in the order of priority."""

from typing import Final

from gateway.admission.priority import Class
from gateway.limits import CALM_WINDOWS, CATCH_UP, GOOD_WINDOWS, GROW, PLACES, SAFE, SHRINK, SHRINK_MOST

_ALL: Final = len(Class) * PLACES
_FEW: Final = 8
"""Let in more in any case, so that a threshold that has fallen to nothing rises again."""


class Threshold:
    """Adjusted once a window (`adjust`); `admits` says whether a request of a class and place may begin.

    The number admitted in a window follows what can be done as TCP's window follows what a path can carry. Where more
    came than could be done it falls to SHRINK, or to what was done, but not below SHRINK_MOST. Then it rises by
    CATCH_UP up to SAFE of where it fell, by GROW above that, and by CATCH_UP again after GOOD_WINDOWS without a fall.
    Those admitted are the first in the order of priority, by the histogram of who came in the last window. After
    CALM_WINDOWS in which everybody was admitted nobody is counted any more.
    """

    __slots__ = ("_allowed", "_calm", "_came", "_cut", "_good", "_safe", "level", "limited")

    def __init__(self) -> None:
        self.limited = False
        """Whether anything may be refused; while it is False nobody is counted."""
        self.level = _ALL
        """Priorities below it are admitted."""
        self._allowed = 0.0
        self._safe = 0.0
        """Up to here it rises fast."""
        self._calm = 0
        """Windows in a row in which everybody was admitted."""
        self._good = 0
        """Windows in a row in which no more came than could be done."""
        self._cut = False
        """Whether it fell after the last window: what the fall has done shows in the one after that."""
        self._came = [0] * _ALL

    @property
    def refuses(self) -> bool:
        """Whether anybody is refused."""
        return self.level < _ALL

    def admits(self, kind: Class, place: int) -> bool:
        """Count a request, and say whether it may begin."""
        priority = kind * PLACES + place
        self._came[priority] += 1
        return priority < self.level

    def adjust(self, begun: float, windows: float, *, behind: bool) -> None:
        """Take in a window: how many requests have begun in WINDOW_S, and whether more came than could be done.

        `windows`: how many windows it lasted; more than one where the loop was late.
        """
        if not self.limited:
            if behind:
                # Requests are counted from now on; the next call knows their priorities.
                self.limited, self._calm, self._cut = True, 0, True
                self._allowed, self._safe = SHRINK * begun, float("inf")
            return
        self._good = 0 if behind else self._good + 1
        came, self._came = self._came, [0] * _ALL
        if not behind and self.level == _ALL:
            # Everybody was admitted and could be served: nobody is refused for coming in greater number than before.
            self._allowed, self._cut = sum(came) / windows, False
            self._calm += 1
            self.limited = self._calm < CALM_WINDOWS
            return
        self._calm = 0
        if not behind:
            self._cut = False
            fast = self._allowed < self._safe or self._good > GOOD_WINDOWS
            self._allowed = self._allowed * (CATCH_UP if fast else GROW) + _FEW
        elif self._cut:
            self._cut = False
        else:
            self._cut, self._safe = True, SAFE * self._allowed
            # A window in which little was done may have been an unlucky one.
            self._allowed *= max(SHRINK_MOST, min(SHRINK, begun / max(1.0, self._allowed)))
        room, level = self._allowed * windows, 0
        while level < _ALL and room >= came[level]:
            room -= came[level]
            level += 1
        self.level = max(level, PLACES)
