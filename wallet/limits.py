"""Every bound of the wallet, each with its reason; their relations are checked at import."""

from typing import Final

from errors import check_limit
from runtime.process import STOP_S
from wire.limits import DEADLINE_S as LINK_DEADLINE_S

NAME_CHARS: Final = 64
"""An account name: the width of the column."""
USER_CHARS: Final = NAME_CHARS - len("user:")
"""A user's name must fit into the name of their account (the rules allow 40)."""
ORDER_CHARS: Final = 64
HASH_BYTES: Final = 32
"""A header's hash (SHA-256)."""
DRAFT_BYTES: Final = 64
"""What a create may keep with its fund for a repeat; setnodes use 26."""
MAX_AMOUNT_FEN: Final = 10**13
"""A hundred billion yuan in one order is a bug; 900,000 such orders still fit into a bigint balance."""

MAX_ORDERS_PER_PAY: Final = 4_000
"""One PAY is decided and answered as a whole, so it must fit into one batch; about 300 KB on the wire."""
MAX_BATCH_ORDERS: Final = 4_000
"""Orders in one transaction: in larger batches an order is hardly cheaper and its caller waits longer."""
MAX_BATCH_CREATES: Final = 1_000
"""Creates and deposits in one transaction, beside its payouts: the user behind each of them waits for the reply."""
MAX_QUEUED_ORDERS: Final = 60_000
"""Payouts waiting for a transaction: as many as can be written well within their deadline. Above it callers receive
`busy` at once."""
MAX_QUEUED_CREATES: Final = 10_000
"""The same for creates and deposits, which do not queue behind payouts
(docs/decisions/0018-creates-do-not-queue-behind-payouts.md)."""
BUSY_RETRY_S: Final = 0.5

REQUEST_DEADLINE_S: Final = 4.0
"""From then on a request is not tried again but answered with an error, once the attempt that is running ends; below
the link's deadline, so that the caller usually receives the reason."""
COMMIT_PATIENCE_S: Final = 15.0
"""A transaction that has not ended after this long has lost its server: the connection is dropped, never cancelled."""
LOCK_WAIT_MS: Final = 2_000
"""How long a batch waits for the ledger's lock, which another wallet process may hold; then it is tried again."""
IDLE_IN_TRANSACTION_MS: Final = 5_000
"""Postgres ends a transaction whose wallet process has vanished, so that another process gets the ledger's lock."""
ROLLBACK_S: Final = 1.0
"""A rollback takes milliseconds; a connection that cannot roll back by then is dropped."""
ALONE_AFTER: Final = 3
"""After this many attempts refused by UNIQUE or CHECK each request of a batch gets a transaction of its own."""
IDLE_CHECK_S: Final = 1.0
"""How often an idle writer checks its connection and remakes it, for `/readyz`."""
DRAIN_S: Final = 1.1
"""How long a stop waits for the queues to empty; leaves time to close the listener within the process's STOP_S."""
DRAIN_POLL_S: Final = 0.01
"""How often it looks whether reads are left."""

MAX_PLACES: Final = 1_000_000
"""The largest daily limit."""
PLACES_AT_ONCE: Final = 1_000
"""Places in one call: some tens of milliseconds."""
PLACES_DEADLINE_S: Final = 3.0
"""A statement that takes longer is given up; before its caller gives up (`wire.limits.DEADLINE_S`)."""
MAX_WAITING_PLACES: Final = 200
"""Calls that wait for their turn; one more is refused as `busy`."""
PLACES_KEPT_DAYS: Final = 1
"""Places of yesterday are kept: clocks differ, and a midnight is not the end of what is under way."""
PLACES_FORGOTTEN: Final = 10_000
"""Rows deleted in one statement."""
FORGET_PLACES_S: Final = 600.0
"""How often old places are looked for."""

CACHED_ACCOUNTS: Final = 500_000
"""Account numbers kept in memory, about 150 bytes each."""
RECENT_CREATES: Final = 30_000
"""Creates whose envelope ID is kept in memory, about 220 bytes each: the last seconds at full load."""

READERS: Final = 3
"""Connections for reads; the writer has its own."""
MAX_WAITING_READS: Final = 1_000
"""Callers waiting for one of them; above it they receive `busy` at once."""
READ_WAIT_S: Final = 1.0
"""How long a caller waits for one of them; then it receives `busy`."""
READ_TIMEOUT_MS: Final = 2_000
"""Postgres cancels a read that takes longer. A page of entries is an index range of at most MAX_PAGE rows; a page of
envelopes received filters the same index by kind, and totals read a user's whole part of it, about 0.4 µs an entry: a
user with several million may reach this bound."""
READ_DEADLINE_S: Final = READ_TIMEOUT_MS / 1000 + 0.5
"""A read without an answer by then has lost its server: the connection is dropped and made anew."""
READ_CHECK_S: Final = 2.0
"""How often an idle wallet reads, for `/readyz`."""
MAX_PAGE: Final = 100
MAX_INSTANT_MS: Final = 253_370_764_800_000
"""Start of the year 9999; later instants cannot be written as a date."""
MAX_FUNDS_PAGE: Final = 1_000
"""The longest page of creates, for the SETs' sweepers."""
SAMPLE_S: Final = 15.0
"""How often the wallet reads, for its metrics, what is in escrow, when jobs have last run and how many standbys there
are (`schema.jobs`, `schema.standbys`)."""
TOPOLOGY_EVERY_S: Final = 5.0
"""How often the topology file is read: a SET that has given a database away loses the right to pay for it."""
PUBLISHED_EVERY_S: Final = 0.5
"""How often the wallet looks in its own database for what is published: gateways hear of it from here alone."""
TOPOLOGY_AGAIN_S: Final = 0.01
"""Least pause between two reads because a SET names an envelope that it does not seem to hold: a read takes 50 µs, and
right after a move requests wait for it."""

PROVIDER_AT_ONCE: Final = 64
"""Payments in progress at the outside provider: what it takes without slowing down, and how many may be in doubt
after it dies."""
PROVIDER_CALL_S: Final = 1.0
"""One HTTP call."""
PROVIDER_TRIES: Final = 3
PROVIDER_PATIENCE_S: Final = 2.5
"""All attempts at one payment; then the result is UNKNOWN, and the SET repeats it later under the same number."""
PROVIDER_WAIT_S: Final = 1.0
"""How long an order waits for one of the PROVIDER_AT_ONCE places; then its result is UNKNOWN. So a PAY of any length is
answered before its link gives up."""
PROVIDER_BODY_BYTES: Final = 4_096
REASON_CHARS: Final = 200
"""Of the provider's reason for a refusal: as much as a SET keeps of it."""
NAMED_ORDERS: Final = 20
"""Order numbers in one line of the log; all of them are stuck payouts of their SET, which names each."""


check_limit(MAX_ORDERS_PER_PAY <= MAX_BATCH_ORDERS, "a PAY must fit into a batch")
check_limit(MAX_BATCH_ORDERS < MAX_QUEUED_ORDERS, "a batch of orders must fit into the queue")
check_limit(MAX_BATCH_CREATES < MAX_QUEUED_CREATES, "a batch of creates must fit into the queue")
check_limit(REQUEST_DEADLINE_S < LINK_DEADLINE_S, "the wallet must give up before the link does")
check_limit(DRAIN_S < STOP_S, "the queues must be emptied before the process ends")
check_limit(LOCK_WAIT_MS / 1000 < REQUEST_DEADLINE_S, "a lock must be waited for within the deadline")
check_limit(PROVIDER_CALL_S < PROVIDER_PATIENCE_S, "a call to the provider must fit into the patience with it")
check_limit(
    PROVIDER_WAIT_S + PROVIDER_PATIENCE_S < REQUEST_DEADLINE_S, "an outside payment must end within the deadline"
)
check_limit(READ_WAIT_S + READ_DEADLINE_S < LINK_DEADLINE_S, "a read must end before the link gives up")
check_limit(READ_TIMEOUT_MS / 1000 < READ_DEADLINE_S, "Postgres must end a slow read before its connection is dropped")
