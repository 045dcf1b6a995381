"""Every limit of the wallet in one place, each with its reason; their relations are checked at import."""

from typing import Final

from envelope.errors import InvariantBroken
from wire.link import DEADLINE_S as LINK_DEADLINE_S

NAME_CHARS: Final = 64
"""An account name: the width of the column."""
USER_CHARS: Final = NAME_CHARS - len("user:")
"""A user's name must fit into his account's name (the rules allow 40)."""
ORDER_CHARS: Final = 64
MAX_AMOUNT_FEN: Final = 10**13
"""A hundred billion yuan in one order is a bug; 900,000 such orders still fit into a bigint balance."""

MAX_ORDERS_PER_PAY: Final = 4_000
"""One PAY is decided and answered as a whole, so it must fit into one batch; about 300 KB on the wire."""
MAX_BATCH_ORDERS: Final = 4_000
"""Orders in one transaction: 80-120 ms of Postgres at full load. Measured in Postgres alone (a sketch): 40 us an order
in batches of 200, 24 in 1,000, 20 in 4,000; more would make everybody wait longer for little."""
MAX_BATCH_CREATES: Final = 1_000
"""Creates and deposits in one transaction, beside its payouts: each of them is a caller who waits."""
MAX_QUEUED_ORDERS: Final = 60_000
"""Payouts waiting for a transaction: about 1.5 s of work. Above it a caller hears `busy` at once, because what waits
longer than its deadline is work for nobody."""
MAX_QUEUED_CREATES: Final = 10_000
"""The same for creates and deposits, at some thousands a second; a backlog of payouts does not keep them out."""
BUSY_RETRY_S: Final = 0.5

REQUEST_DEADLINE_S: Final = 4.0
"""A request not committed by then is let go; must be below the link's deadline, so that the caller hears why."""
COMMIT_PATIENCE_S: Final = 15.0
"""A transaction without a word for this long has lost its server: the connection is dropped, never cancelled.
A create may bear a time so much earlier than it came, which a SET's sweeper allows for (`setnode/limits.py`)."""
LOCK_WAIT_MS: Final = 2_000
"""Waiting for another wallet process (each holds the ledger for one batch) or a stray lock, then try again."""
IDLE_IN_TRANSACTION_MS: Final = 5_000
"""Postgres ends a transaction whose wallet process has vanished, so that the ledger is free for the next."""
ALONE_AFTER: Final = 3
"""After so many attempts that refuted even careful decisions, each request is tried in a transaction of its own."""
IDLE_CHECK_S: Final = 1.0
"""An idle writer looks this often whether its connection must be remade, for `/readyz`."""
DRAIN_S: Final = 1.2
"""What the queue gets to empty at a stop; must leave the process's STOP_S (2 s) time to close the listener."""

CACHED_ACCOUNTS: Final = 500_000
"""Account names whose number is kept in memory, about 150 bytes each."""
RECENT_CREATES: Final = 30_000
"""Creates whose envelope ID is kept in memory, about 220 bytes each: the last two seconds at full load."""

READERS: Final = 3
"""Connections for reads; the writer has its own."""
MAX_WAITING_READS: Final = 1_000
READ_WAIT_S: Final = 1.0
READ_TIMEOUT_MS: Final = 2_000
"""A read that takes longer is cancelled by Postgres; every page is an index range of at most 100 rows."""
MAX_PAGE: Final = 100
MAX_FUNDS_PAGE: Final = 1_000
"""For the SETs' sweepers, which are ours."""
ESCROW_SAMPLE_S: Final = 15.0

PROVIDER_AT_ONCE: Final = 64
"""Calls to the outside provider in flight: what it takes without slowing down, and what is in doubt after it dies."""
PROVIDER_CALL_S: Final = 1.0
"""One HTTP call; a payment (ask, order, ask again, with pauses) must end below REQUEST_DEADLINE_S."""
PROVIDER_TRIES: Final = 3
PROVIDER_PATIENCE_S: Final = 2.5
"""All tries of one payment; then UNKNOWN, and the SET repeats later under the same number."""
PROVIDER_WAIT_S: Final = 1.0
"""Waiting for one of the places; then UNKNOWN. So a PAY of any length is answered before its link gives up."""
PROVIDER_BODY_BYTES: Final = 4_096


def check() -> None:
    """Raise InvariantBroken where the limits contradict each other; called at import."""
    relations = {
        "a PAY fits into a batch": MAX_ORDERS_PER_PAY <= MAX_BATCH_ORDERS,
        "a batch fits into the queue": MAX_BATCH_ORDERS < MAX_QUEUED_ORDERS and MAX_BATCH_CREATES < MAX_QUEUED_CREATES,
        "the wallet gives up before the link": REQUEST_DEADLINE_S < LINK_DEADLINE_S,
        "a lock is waited for within the deadline": LOCK_WAIT_MS / 1000 < REQUEST_DEADLINE_S,
        "a payment outside ends in time": PROVIDER_CALL_S < PROVIDER_PATIENCE_S
        and PROVIDER_WAIT_S + PROVIDER_PATIENCE_S < REQUEST_DEADLINE_S,
        "a read ends in time": READ_WAIT_S + READ_TIMEOUT_MS / 1000 < LINK_DEADLINE_S,
    }
    for name, holds in relations.items():
        if not holds:
            raise InvariantBroken("wallet_limits", name)


check()
