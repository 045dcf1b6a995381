"""Every bound of this room in one place, with its reason; relations between them are checked at import."""

from envelope.limits import LIMITS
from errors import check_limit
from wire.limits import DEADLINE_S

# Requests and memory.
MAILBOX = 20_000
"""Requests waiting at one envelope; more are refused with `busy`. Twice the shares of the largest envelope: later
requests cannot win."""
STALE_S = 4.0
"""A request that has waited this long undecided gets `busy`: its caller gives up at the link's deadline."""
LIVE_SHARES = 4_000_000
"""Shares of the envelopes in memory (HONGBAO_LIVE_SHARES, docs/operations), each about 150 bytes with its winner; above
it idle envelopes passivate."""
ENVELOPE_WEIGHT = 10
"""What an envelope takes in memory besides its shares, counted as so many shares."""
UNREAD_SHARES = 20
"""Shares counted for an envelope whose log is not read yet: those of a usual group."""
PASSIVATE_STEPS = 8
"""Actors looked at for passivation when one is added to full memory: more than one, so that more leaves than comes."""
FROZEN_S = 10.0
"""A frozen envelope is read again at most this often."""
CLAIMS_PAGE = 100
"""Claims in a detail whose caller names no number."""
MAX_CLAIMS_PAGE = 1_000
"""The longest page of claims: about 85 KB, so that the answers on a link stay small beside each other."""
LIVE_CLAIMS = 20
"""Claims in a frame for watchers, the newest: a screen. Who misses some asks for the detail."""
LIVE_S = 0.15
"""How often watched envelopes are looked at: people see no difference, and a thousand claims are one frame."""
WATCHED = 20_000
"""Envelopes that one gateway may watch here, 300 bytes and 0.5 µs a look each."""
KNOWN_VERSIONS = 4
"""Versions of a detail that a caller may name (`gateway.limits.ETAGS`); a client has one."""
CLAIMS_JSON_FROM = 100
"""Claims from which an envelope's JSON rows are kept; encoding fewer takes little time and keeping none saves
memory."""
TIMESTAMPS_KEPT = 1_024
"""Seconds whose text is cached: of a crowd hundreds share one."""
DAYS_CHECKED = 1_000
"""Days remembered as valid in envelope IDs; few are in use at any time."""

# Group commit.
BATCH_ROWS = 2_000
"""Claims of one transaction: enough to amortise the fsync, few enough to keep a commit under 50 ms."""
BATCH_PER_ENVELOPE = 1_500
"""Requests of one envelope decided in one transaction, so that one hot group does not fill all of it."""
CREATE_BATCH = 1_000
"""Envelopes of one transaction; a header is about three times a claim."""
CLAIM_CONNECTIONS = 2
"""Commits that overlap: Python decides one batch while Postgres writes another."""
BACKLOG = 300
"""Envelopes ready to commit from which the second connection joins; below it one larger batch is cheaper."""
GRACE_S = 0.01
"""How long a lease is kept for requests that may follow at once: the replies to the last commit cause new ones."""
FAILED_PAUSE_S = 0.5
"""Longest pause of a worker whose transactions fail."""
COMMIT_DEADLINE_S = 15.0
"""A transaction without a reply for this long has lost its server: the connection is dropped, no cancel request is
sent, and the actors read what is committed. Longer than any wait for a disk or a standby, shorter than TCP's own
timeout."""
RECYCLE_AFTER = 200_000
"""Uses of a session (calls of `run`) after which its connection is remade: a backend keeps 15 KB for every table it has
ever touched."""

# Admission.
SET_CAP = 8
"""Transactions in a SET's Postgres at once, over all its servers (HONGBAO_ADMISSION_CAP): a few for each core."""
ENVELOPE_CAP = 1
"""Leases of one hot envelope over all servers of the SET: a second writer would only conflict."""
LOCAL_CAP = 4
"""Leases of one server; the only cap while memcached is away, so it bounds a SET without memcached to a few per
server."""
ADMISSION_WAIT_S = 0.25
"""How long a transaction waits at the local cap, and again at the SET's, before its requests get `busy`."""
LEASE_S = 20.0
"""A lease ends by itself after this long, so a killed server keeps none; longer than any term with its last
transaction, so that none goes on without."""
CLOCK_SKEW_S = 2.0
"""By how much the clocks of two servers may differ before one takes the other's leases for forged."""
LEASE_LIST_S = 60
"""memcached drops a SET's list of leases after this long without a change; longer than any lease."""
ADMISSION_RETRY_S = (0.001, 0.005)
"""Pause before the cap is tried again, drawn between these: short against a commit, spread so that servers
alternate."""
LEASE_TERM_S = 0.05
"""How long one lease serves transactions back to back: it saves two CAS exchanges a transaction under load."""
LONG_LEASE_TERM_S = 0.5
"""The same while the SET is below its cap and no other server contends for a hot envelope in the lease. Bounded,
because memcached may have forgotten who contends."""
MISSED = 10_000
"""Envelopes not in memory of which it is remembered that another server has written to them, 100 bytes each: a create
whose commit is heard of later must not show them as nobody's."""
FROZEN_TRANSACTION_S = 2.0
"""Postgres ends a transaction in which nothing was sent for so long: its server is frozen, or its host is gone, and the
next server's claims would wait for its rows until they are given up themselves."""
HOLDER_GONE_S = 2 * LONG_LEASE_TERM_S
"""A holder that gives a hot envelope to nobody for so long, though another server has marked that it wants it, was
killed or is frozen: its lease is taken over. LEASE_S is too long for a crowd. A holder that comes back conflicts."""
MOST_WANTED = 1_000
"""Hot envelopes of which it is remembered who holds them."""
MEMCACHED_TIMEOUT_S = 0.2
"""memcached answers in 0.1 ms; one that takes this long counts as away."""
MEMCACHED_AWAY_S = 1.0
"""After a failure memcached is not asked for this long, so that its absence does not slow every commit."""
MEMCACHED_THREADS = 3
"""Calls to memcached at once: one for each worker of claims, and one for creates."""
CAS_TRIES = 20
"""Tries to change the list of leases; each failure means that another server changed it."""
HOT_AT = 64
"""Requests waiting at one envelope that make it hot: its transactions then count against ENVELOPE_CAP."""
HOT_AT_ONCE = 8
"""Hot envelopes for which one transaction acquires leases: each is an exchange with memcached before it can begin."""
HOT_RETRY_S = 0.02
"""A hot envelope at its cap is tried again after this long."""
CONTENDED_S = 1
"""How long the mark stands that another server contends for a hot envelope."""
YIELD_S = 0.05
"""How long after its term the holder does not acquire such an envelope; the other server retries every HOT_RETRY_S."""

# Reading envelopes.
LOAD_ROUND = 2_000
"""Envelopes of a round: at about 50 µs each an envelope that wakes in the middle of a crowd waits 0.1 s for it."""
LOAD_SHARES = 50_000
"""Shares of a round, about 3 µs and 400 bytes each until the actors have their logs; larger rounds are cut. An envelope
that is larger than what is left is read all the same. Two rounds are in memory: one is read, one given to actors."""
LOAD_SLICE_S = 0.01
"""Logs are restored for this long before the loop serves others. One log of 10,000 shares takes longer by itself."""
LOAD_SLOTS = 16
"""Slots of one query: planning time grows faster than the number of leaves."""
LOAD_READS = 4
"""Queries of one round, in turn over the days that wait; one commit after them seals all."""
LOAD_PAUSE_S = 0.5
"""Longest pause of a loader whose reads fail."""
LOAD_DEADLINE_S = 5.0
"""A read that takes longer, or waits this long for its turn, has lost its server; the connection is remade."""
COLD_THREADS = 2
"""Envelopes of cold days read at once: the archive's threads share the cores with the event loop."""
COLD_CARDS = 125
"""Cold envelopes waiting for which only cards may queue up: lists must not crowd out details and cancels."""
COLD_QUEUE = 500
"""Envelopes of cold days waiting to be read; more are refused with `busy`. At 20 ms each they are done before
STALE_S."""
COLD_UNVERIFIED = 50
"""Of these, envelopes whose archive must first be verified as a whole: one at a time, by a worker of their own."""
COLD_SHARES = 100_000
"""Shares of cold envelopes kept in memory, each about 250 bytes as JSON; the least recently used leave first."""
COLD_LOOKS = 3
"""Places tried for one envelope of a cold day: while it is looked for, the day's tables can be dropped."""
COLD_QUERIES = 64
"""Days whose query text is cached: the cold days that still have tables."""
CARDS_S = 1.5
"""How long a list waits for the envelopes that it shows; it is replied to without the others then. Less than a gateway
waits for it (`gateway.limits.CARDS_S`)."""
CARDS_QUEUE = 100
"""Lists waiting to be read, at 10 to 50 ms each in a SET of 50 databases, most of which is planning: what is not read
within CARDS_S is left out. More are refused with `busy`."""
LISTS_LOGGED_PER_S = 5
"""Lists, and cards, that could not be read and are logged, in a second."""
MAX_CARDS = 100
"""Envelopes of one list (`wallet.limits.MAX_PAGE`)."""
WAITING_BLOCKS = 10
"""Blocks of MAX_CARDS invitations that one request looks at; what is below is the next page's. A user who is named more
often in a week, and has opened nearly all of it, gets pages that are not full."""
CARD_QUERIES = 128
"""Statements of so many parts that are remembered as text: a page has MAX_CARDS at most, each of another day or slot
group."""

# Creates and days.
MAX_INSTANT_MS = 253_370_764_800_000
"""Start of the year 9999: no envelope ends later, so that every instant of it can be written as a date."""
CREATES = 5_000
"""Creates in flight in this process; more are refused with `busy`."""
STANDBY_MISSING_S = 5.0
"""A commit that has waited so long for a standby has lost it: a slow one takes tenths of a second."""
STANDBY_EVERY_S = 1.0
"""Between two looks: how long requests are begun in vain after that, and refused in vain once a standby is back."""
STANDBYS_EVERY_S = 15.0
"""How often the SET's standbys are counted, for a metric."""
DATABASE_SILENT_S = 2.5
"""A database that has not answered for so long a question that takes a millisecond, and is asked once a second, is away
for this server: gateways prefer others of the SET, if these reach it. Longer than a stall of a busy machine."""
DAYS_AGAIN_S = 1.0
"""A create for a day without tables looks for them at most this often: they may have been made a moment ago."""
DAYS_EVERY_S = 5.0
"""How often the days with tables are read: a day that is closed refuses writes by its fence in the meantime."""

# Other servers of the SET.
LISTEN_EVERY_S = 0.5
"""How often a server looks for writes of other servers to its envelopes; a notification tells sooner."""
LISTEN_DEADLINE_S = 2.0
"""Without an answer for this long the listening connection is remade; what was written meanwhile is read then."""
FOREIGN_KEPT_S = 600.0
"""How long it is kept which envelopes a stand-in has written. A server that could not look for half of it reads every
log again."""
FOREIGN_READ = 5_000
"""Such writes taken in at once, as many as a stand-in makes in about a second; with more every log is read again."""
LISTEN_PAUSE_S = 1.0
"""Longest pause before listening again."""
NOTIFY_IDS = 350
"""Envelope IDs of one notification: it holds 8,000 bytes, an ID takes 20."""
TOPOLOGY_EVERY_S = 1.0
"""How often the topology file is checked for a newer version."""
PUBLISHED_EVERY_S = 1.0
"""How often a server looks for what is published; a notification has it look at once."""
PUBLISHED_ASK_S = 5.0
"""How often it asks the wallet, too: for what was published while its SET's Postgres was away."""
TOPOLOGY_AGAIN_S = 0.02
"""The file is read at most this often because a caller knows a newer version: it may be on its way to this machine."""

# Services.
SERVICE_DEADLINE_S = 15.0
"""As COMMIT_DEADLINE_S, for one page or batch that expiry, sweeper or payouts read or write."""
SERVICE_ROUND_S = 30.0
"""A round of a periodic service is cancelled after this long."""
EXPIRY_EVERY_S = 0.4
"""Pause between two rounds of expiry: users see an envelope close within a second of its time."""
EXPIRY_PAGE = 4_000
"""Due envelopes taken at once: a page is read and closed by queries over LOAD_SLOTS slots each, so a larger one has
more rows a query; few enough to be closed within STALE_S on a busy machine."""
EXPIRY_PAGES = 2
"""Pages closed at once: the logs of one are read while the claims of the other are committed."""
EXPIRY_SLICE = 200
"""Envelopes of a page handed to their actors in one turn of the loop: about 2 ms."""
EXPIRY_ROUND_S = 8.0
"""Full pages follow each other without a pause for this long; then the round is counted."""
EXPIRY_ADOPT_S = 5.0
"""An envelope overdue for this long is closed by any server, if its own is not alive."""
SERVER_SILENT_S = 5.0
"""A server whose listening connection has asked nothing for this long is not alive; it asks every LISTEN_EVERY_S."""
EXPIRY_CLOSE_S = 5.0
"""How long a round waits for the actors to close; what is not closed then comes up in the next walk."""
SWEEP_EVERY_S = 5.0
"""Pause between two rounds of the sweeper."""
SWEEP_AFTER_S = 30.0
"""A create that paid in but made no envelope within this time is undone; must exceed the link's deadline."""
SWEEP_PAGE = 500
"""Funds compared in one transaction."""
SWEEP_IN_A_ROW = 100
"""Funds without a header, and none with one between them, above which the sweeper stops (HONGBAO_SWEEP_IN_A_ROW): more
than a crashed server leaves at ordinary load, and fewer than a page, so that a database that lost its headers is
noticed before anything is undone."""
SWEEP_REASON_CHARS = 200
"""Characters kept of why a fund was set apart."""
SWEEP_ROUND_S = 15.0
"""A round ends after this long, even if it has not caught up: another server may be the SET's sweeper next."""

# Payouts.
PAY_BATCH = 2_000
"""Orders of one call to the wallet."""
PAY_GATHER_S = 0.1
"""A worker that has just paid waits this long for more orders: a credit costs less in a large batch, and no client
waits for it."""
PAY_WORKERS = 4
"""Calls to the wallet at once: while one commits, the next are on their way."""
PAY_HELPERS = 4
"""Further calls at once, only while there are orders for a whole call. PAY_WORKERS calls fill two batches of the
wallet; the next is to be on its way before the first is answered. With fewer orders they would make all calls
smaller."""
PAY_QUEUE = 500
"""Committed batches kept in memory for paying; the others are read back from Postgres, where each has a row."""
PAY_RETRY_ORDERS = 50_000
"""Orders kept in memory for a retry, about 300 bytes each. They do not count against PAY_QUEUE, so that new batches
always find space; the rest is read back from Postgres when its time comes."""
PAY_SPILLED = 20_000
"""Batches that found no space for a retry (spilled) and whose time is remembered; above it the oldest is forgotten, and
read back like any other."""
PAY_FIRST_RETRY_S = 0.1
"""Pause after the first try of an order that got no final answer; each further try doubles it."""
PAY_RETRY_S = 60.0
"""Longest pause between two tries of an order."""
PAY_DOUBLINGS = 12
"""The pause is no longer doubled after this many tries: it has reached PAY_RETRY_S, and the power stays small."""
PAY_ATTEMPTS = 500
"""Tries of an order without a final answer before it is stuck for an operator: six hours, as the pauses grow to
PAY_RETRY_S, three quarters of it on average. A provider that is away for an evening leaves nobody stuck."""
PAY_AWAY_S = 2.0
"""Longest pause while the wallet does not answer at all."""
READ_BACK_EVERY_S = 2.0
"""How often payout batches that are not in memory are looked for."""
READ_BACK_BATCHES = 200
"""Batches read back at once that this process does not hold and has not spilled."""
READ_BACK_SPILLED = 20
"""Spilled batches read back at once when their time has come; all their orders are sent again, the paid ones too."""
ADOPT_AFTER_S = 15.0
"""Payout batches of another server untouched for this long are paid by any server that finds them."""
STUCK_SHOWN = 1_000
"""Stuck payouts that an operator sees at once, the oldest first."""
STUCK_REASON_CHARS = 200
"""Characters of the wallet's reason that are kept with a stuck payout."""

# Daily limits.
DAILY_WAITING = 20_000
"""Opens that wait for a place of the day, and places to be given back; more opens are refused with `busy`."""
PLACES_AT_ONCE = 1_000
"""Places asked for in one call (`wallet.limits.PLACES_AT_ONCE`)."""
PLACES_RETRY_S = 0.5
"""Pause before places are given back again, while the wallet is away."""
MOST_PLACES = 1_000_000
"""The largest daily limit (`wallet.limits.MAX_PLACES`)."""

# Operators.
HOT_WITHIN_S = 60
"""The list of hot envelopes counts the opens of this time."""
HOT_SHOWN = 100
"""Most envelopes of that list."""
HOT_SCAN = 2_000
"""Actors looked at in one turn of the event loop: about a millisecond."""
DRAIN_S = 1.5
"""How long a stop waits for work in flight. Work left then is safe: what was committed stands in Postgres."""
DRAIN_POLL_S = 0.01
"""How often a stop checks whether work is left."""
LAST_REPLIES_S = 0.01
"""The last replies are written in the next turns of the loop."""
GAUGES_EVERY_S = 1.0
"""How often gauges and counters are published."""
PASSWORD_KEY_CHARS = 16
"""Shortest key for passwords: 128 bits even if it is text of one random byte a character."""

check_limit(LIMITS.max_count <= MAILBOX, "a mailbox must hold a request for every share of the largest envelope")
check_limit(LIMITS.max_count <= LIVE_SHARES, "memory must hold the largest envelope")
check_limit(LIMITS.max_count <= COLD_SHARES, "memory must hold the largest cold envelope")
check_limit(BATCH_PER_ENVELOPE <= BATCH_ROWS, "one envelope cannot have more rows in a batch than the batch")
check_limit(HOT_AT <= MAILBOX, "an envelope must count as hot before its mailbox is full")
check_limit(ENVELOPE_CAP <= SET_CAP, "a hot envelope cannot have more leases than its SET")
check_limit(CLAIM_CONNECTIONS + 1 <= LOCAL_CAP, "creates must find a lease beside all workers of claims")
check_limit(CLAIM_CONNECTIONS + 1 <= MEMCACHED_THREADS, "no worker may wait for another one's call to memcached")
check_limit(4 * LEASE_TERM_S <= ADMISSION_WAIT_S, "a transaction that waits at the cap must see several terms end")
check_limit(LONG_LEASE_TERM_S <= STALE_S / 4, "a request for a hot envelope must see several long terms end")
check_limit(FROZEN_TRANSACTION_S < STALE_S, "requests must outlive a transaction of a server that is frozen")
check_limit(HOLDER_GONE_S < STALE_S / 2, "a crowd must be served, not refused, once the holder is known to be gone")
check_limit(LEASE_S > LONG_LEASE_TERM_S + COMMIT_DEADLINE_S, "a lease must not end before its last transaction")
check_limit(LEASE_LIST_S > LEASE_S, "memcached must keep the list longer than any lease in it")
check_limit(HOT_RETRY_S < YIELD_S < CONTENDED_S, "the contender must retry while the holder yields")
check_limit(MEMCACHED_TIMEOUT_S < ADMISSION_WAIT_S, "one silent call to memcached must leave time to go on without it")
check_limit(
    max(SERVICE_DEADLINE_S, 2 * LOAD_DEADLINE_S) < SERVICE_ROUND_S,
    "a round must outlast the deadline of its queries, whose error says what is known",
)
check_limit(
    2 * STANDBY_EVERY_S <= DATABASE_SILENT_S < LOAD_DEADLINE_S,
    "two looks must fail before a database counts as silent, and it must before its callers have given up",
)
check_limit(SWEEP_IN_A_ROW < SWEEP_PAGE, "a page without any header must stop the sweeper before it undoes anything")
check_limit(SWEEP_ROUND_S < SERVICE_ROUND_S, "a sweeper's round must end by itself, before it is cancelled")
check_limit(
    EXPIRY_ROUND_S + EXPIRY_CLOSE_S + SERVICE_DEADLINE_S < SERVICE_ROUND_S,
    "a round of expiry must not be cancelled as it waits for its last page",
)
check_limit(LISTEN_EVERY_S + LISTEN_DEADLINE_S < SERVER_SILENT_S, "a living server must not count as silent")
check_limit(PAY_RETRY_ORDERS >= PAY_BATCH, "a batch without an answer must find space for its retry")
check_limit(PAY_FIRST_RETRY_S * 2**PAY_DOUBLINGS >= PAY_RETRY_S, "the doubled pause must reach the longest one")
check_limit(READ_BACK_BATCHES <= PAY_QUEUE, "what is read back at once must fit into memory")
check_limit(LISTEN_EVERY_S < LISTEN_DEADLINE_S, "the listening connection must be checked before it counts as lost")
check_limit(2 * LISTEN_DEADLINE_S < FOREIGN_KEPT_S / 2, "what was written must be kept until a lost connection is back")
check_limit(BATCH_ROWS < FOREIGN_READ, "one batch of a stand-in must be read by one look")
check_limit(STALE_S < DEADLINE_S, "a request must be refused before its caller gives up on it")
check_limit(SWEEP_AFTER_S > 2 * DEADLINE_S, "the sweeper must not overtake a create that is still being tried")
