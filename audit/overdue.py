"""From when on an envelope that is past its end, and open, is overdue: money that expiry should have refunded.

An age alone does not tell. A SET that is stopped, paused or restored to an earlier instant has envelopes that ended
long ago, and closes them once it works. What tells is that the SET has gone on without them. `late_s` is how long a
backlog may take (`audit.proof.LATE_S`, as for payouts). An envelope is overdue if

- the SET wrote something `late_s` or more after the envelope's end, so it was at work, and
- that was `late_s` or more before the audit, so a backlog after a standstill has had its time.

A SET that writes nothing at all has no overdue envelopes: that it stands still is for alarms to say. Nor has a sandbox
whose clock is ahead: two moves of it make days of the second in which expiry had no time to work.
"""

from audit.report import Report
from runtime import sql
from runtime.postgres import Connection

_SERVED = sql.read("audit", "served")


async def note_overdue(connection: Connection, report: Report, late_s: float) -> None:
    """Note in `report` from when on the open envelopes of this SET's snapshot are overdue."""
    served_ms = None if report.ahead_s else await connection.fetchval(_SERVED, late_s)
    report.overdue_before_ms = 0 if served_ms is None else served_ms - int(late_s * 1000)
