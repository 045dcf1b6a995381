"""Every bound of this room, with its reason."""

from errors import check_limit
from setnode.limits import DAYS_EVERY_S, LISTEN_EVERY_S

BATCH = 1_000
"""Rows for which the other database is asked at once: some hundred kilobytes, and one round trip for all of them."""
PROGRESS_S = 2.0
"""Between two lines of progress; a command that ends sooner says nothing."""
LOCK_TIMEOUT = "5s"
"""For any lock of Postgres: requests of users wait behind one that is waited for."""
STATEMENT_S = 3.0
"""For looking at payouts that wait in all SETs while the ledger's lock is held, and no money can move."""
LEDGER_HELD_S = 5
"""A command that holds the ledger's lock and says nothing for so long was stopped, or its host is gone: Postgres ends
its session, and money moves again."""
PASSES = 3
"""Times that all places are looked through again: a day may have become hot, or a row have been written, meanwhile."""
UNPAID_FUND_S = 180.0
"""A fund without a header is a create in flight for this long, as for the audit."""
CACHES_S = 2 * LISTEN_EVERY_S
"""After the last change, until every server that reaches its Postgres has dropped what it remembers."""
WHO_CHARS, REASON_CHARS = 64, 200
"""As the columns have it."""
SHOWN = 5
"""Envelopes that a refusal names one by one."""

check_limit(STATEMENT_S < LEDGER_HELD_S, "who looks at payouts is not taken for one that was stopped")
check_limit(CACHES_S < DAYS_EVERY_S, "caches are told sooner than a server looks for itself")
