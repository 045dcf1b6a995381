"""Tells the process that delivers a SET's events that a receiver is to be asked at once, whatever it waits for.

By NOTIFY: pauses are in that process's memory, and while none runs there is nothing to wake. A delivery that begins
asks at once anyway.
"""

from runtime.postgres import Connection

CHANNEL = "hongbao_events_wake"


async def wake(connection: Connection, sink: str) -> None:
    """End the pauses of a sink in one SET."""
    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, sink)
