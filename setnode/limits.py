"""Every bound of this room in one place, with its reason; relations are checked at import."""

from envelope.errors import InvariantBroken
from envelope.limits import LIMITS
from wire.link import DEADLINE_S

MAILBOX = 20_000
"""Requests waiting at one envelope; above it `busy`. Twice the largest envelope: everybody else comes too late."""
LIVE_SHARES = 4_000_000
"""Shares of live envelopes kept in memory, each about 150 bytes with its winner; above it the idle ones passivate.
130,000 envelopes of 20 shares: 170 MB while nobody has opened them, 500 MB sold out."""
ENVELOPE_WEIGHT = 10
"""What an envelope costs in memory besides its shares, in shares."""
BATCH_ROWS = 2_000
"""Claims of one transaction: enough to amortise the fsync, few enough to keep a commit under 50 ms."""
BATCH_PER_ENVELOPE = 1_500
"""Requests of one envelope decided in one transaction, so that one hot group does not fill all of it."""
HALVES_FROM = 400
"""Requests at one envelope from which a transaction takes half of them, so that Python and Postgres work at the same
time. Below it the second commit costs more than that gives (docs/decisions/0017)."""
CLAIM_CONNECTIONS = 2
"""Commits that overlap: one computes while the other waits for the disk."""
CROWD = 300
"""Envelopes ready to commit above which a second connection joins; below it one larger batch is cheaper."""
CREATES = 5_000
"""Creates in flight in this process; above it `busy`."""
CREATE_BATCH = 1_000
"""Envelopes of one transaction; a header is about three times a claim."""
TURN_S = 0.05
"""How long one entry may serve back-to-back transactions: saves two CAS exchanges a transaction under load."""
LONG_TURN_S = 0.5
"""The same while the SET has room and nobody else wants a hot envelope that is in it. Not for ever: memcached may have
forgotten who wants what."""
GRACE_S = 0.01
"""How long an entry is kept for requests that may come back at once: the answers of the last commit call them forth."""
ADMISSION_WAIT_S = 0.25
"""How long a transaction waits at the cap before those in it are told `busy`."""
LOAD_BATCH = 500
"""Envelopes of one day loaded in one query."""
LOAD_SLOTS = 16
"""Slots of one query. Planning grows with the leaves: measured with 250 slots a day, 1 slot takes 1.0 ms, 16 take 2.7
(0.17 each), 32 take 9.2, all 250 take 101."""
LOAD_READS = 4
"""Queries of one round, in turn over the days that wait: sealed by one commit and answered together."""
DAYS_AGAIN_S = 1.0
"""How often creates of a day without tables make us look for these: they may have been made a moment ago."""
LOAD_PATIENCE_S = 5.0
"""A read that takes longer, or waits this long for its turn, has lost its server; the connection is thrown away and
another one made."""
COMMIT_PATIENCE_S = 15.0
"""A transaction without a word for this long has lost its server: the connection is dropped, never cancelled, and the
actors find out what is true. Longer than any wait for a disk or a standby, shorter than TCP's own patience."""
SERVICE_PATIENCE_S = 15.0
"""The same for what expiry, sweeper and payouts ask of Postgres in one go: pages and batches, some of them written."""
SERVICE_ROUND_S = 30.0
"""A round of a periodic service is given up after this long, whatever it waits for."""
LISTEN_EVERY_S = 0.5
"""How often the connection that listens is asked for a sign of life."""
LISTEN_PATIENCE_S = 2.0
"""A listener without one for this long may have missed notifications: it is remade, and every log is read anew."""
STALE_S = 4.0
"""A request that has waited this long undecided is told `busy`: its caller gives up at the link's deadline."""
COLD_THREADS = 2
"""Envelopes of cold days read at once: the archive's threads share the cores with the event loop."""
COLD_QUEUE = 500
"""Envelopes of cold days waiting to be read; above it `busy`. At 20 ms each they are done before STALE_S."""
COLD_DOUBTED = 50
"""Of them, those whose archive must be read as a whole before it is believed: one at a time, beside the others."""
COLD_SHARES = 100_000
"""Shares of cold envelopes kept in memory, each about 250 bytes as it is shown; the least asked for go first."""
FROZEN_S = 10.0
"""A frozen envelope is read again at most this often."""
HOT_AT = 64
"""Requests waiting at one envelope that make it hot: its transactions then count against the cap per envelope."""
PAY_BATCH = 2_000
"""Orders of one call to the wallet."""
PAY_GATHER_S = 0.1
"""A worker that has just paid lets this much gather: a credit costs less in a batch of hundreds, and nobody waits."""
PAY_WORKERS = 4
"""Calls to the wallet at once: while one commits the next are on their way, as long as there is enough to pay."""
PAY_HELPERS = 4
"""More calls at once while there is a whole one's worth to pay. Four calls are two batches of the wallet; a third is to
be on its way before the first is answered for. For less they would only make the others' calls smaller."""
PAY_QUEUE = 500
"""Committed batches kept in memory for paying; what exceeds it is read back from Postgres, where all of it stands."""
PAY_UNANSWERED = 50_000
"""Orders kept in memory that the wallet could not answer for, about 300 bytes each. They do not count against
PAY_QUEUE, so that new ones always have room; what exceeds this is read back from Postgres when its time comes."""
PAY_LATER = 20_000
"""Batches of such orders of which it is remembered when that is; the oldest are forgotten and found like any other."""
PAY_ATTEMPTS = 50
"""Tries of an order that the wallet cannot answer for before an operator must look; hours, with backoff to a minute."""
ADOPT_AFTER_S = 15.0
"""Payout batches of another server untouched for this long are paid by whoever finds them."""
SWEEP_AFTER_S = 30.0
"""A create that paid in but made no envelope within this time is undone; must exceed the link's deadline."""
RECYCLE_AFTER = 200_000
"""Statements after which a connection is remade: a backend keeps 15 KB for every table it ever touched."""

if LIMITS.max_count > MAILBOX:
    raise InvariantBroken("limits", "a mailbox must hold a request for every share of the largest envelope")
if BATCH_PER_ENVELOPE > BATCH_ROWS:
    raise InvariantBroken("limits", "one envelope cannot have more rows in a batch than the batch")
if 4 * TURN_S > ADMISSION_WAIT_S:
    raise InvariantBroken("limits", "whoever waits at the cap must see several turns end")
if LONG_TURN_S > STALE_S / 4:
    raise InvariantBroken("limits", "whoever waits for a hot envelope must see several long turns end")
if max(SERVICE_PATIENCE_S, 2 * LOAD_PATIENCE_S) >= SERVICE_ROUND_S:
    raise InvariantBroken("limits", "a round must outlast the patience of what it asks, which says what is known")
if PAY_UNANSWERED < PAY_BATCH:
    raise InvariantBroken("limits", "a batch without an answer must find room to be tried again")
if STALE_S >= DEADLINE_S:
    raise InvariantBroken("limits", "a request must be refused before its caller gives up on it")
# A transaction that the commit before it began is as old as that commit: its creates may look older than they are.
if SWEEP_AFTER_S <= 2 * DEADLINE_S + COMMIT_PATIENCE_S:
    raise InvariantBroken("limits", "the sweeper must not overtake a create that is still being tried")
