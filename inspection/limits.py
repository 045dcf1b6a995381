"""Every bound of this room, with its reason; relations are checked at import."""

from errors import check_limit
from runtime.postgres import CONNECT_S

INSPECT_S = 15.0
"""For all figures of a SET; they take milliseconds, and about a second with a hundred thousand relations."""
AWAY_S = CONNECT_S + INSPECT_S
"""An inspection of a SET that is away ends after this long: to connect, and to read."""
ASK_S = 5.0
"""For a server to name its hottest envelopes, which it has in memory."""
CALENDAR_DAYS = 40
"""Days back that a calendar shows: a month of table names, and the days that are leaving."""
TOP = 10
"""Tables and statements shown."""

check_limit(AWAY_S <= 20.0, "an operator waits 20 s at most for a SET that is away")  # noqa: PLR2004 - the relation
