"""Every bound of this room, with its reason; relations are checked at import."""

from errors import check_limit

LOCK_TIMEOUT_MS = 200
"""`lock_timeout` of every DDL statement: while it waits for a table, all later statements on it wait behind it."""
DAY_LOCK_S = 2.0
"""How long the day lock is waited for: the last statement of a killed process may still run in Postgres and hold it."""
DAY_LOCK_POLL_S = 0.1
"""Pause between two tries at the day lock."""
SHOWN = 100
"""Most obstacles of one kind that are read and named one by one."""
HOLDERS_SHOWN = 5
"""Most processes that an error names as holding a table."""
TABLES_SHOWN = 2
"""Most tables that an error names as not locked; a day of one database has 21."""

check_limit(
    LOCK_TIMEOUT_MS / 1000 < DAY_LOCK_S, "a killed process' DDL ends by its lock timeout before the lock is given up"
)
