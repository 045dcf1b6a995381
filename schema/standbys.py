"""How many standbys a server has: whoever has lost one of two still serves, and has less to lose next."""

from typing import Final

from runtime import metrics
from runtime.postgres import Connection

LOG_SLOT: Final = "hongbao_backup"
"""The replication slot of the log that is kept for backups (`backup.logkeeper`); one receiver can use it at a time."""
# Slots, because a role that is no superuser does not see what the list of connections says of others. A temporary one
# is a base copy's.
_COUNT: Final = """-- standbys: how many follow by a slot of theirs. Index, lock: none.
SELECT count(*) FROM pg_replication_slots
WHERE slot_type = 'physical' AND active AND NOT temporary AND slot_name <> $1"""
_standbys = metrics.gauge("hongbao_standbys", "Standbys that follow this process's Postgres by a replication slot")


async def publish(connection: Connection) -> None:
    """Count the standbys of the server, and show the number as a metric."""
    _standbys.set(await connection.fetchval(_COUNT, LOG_SLOT))
