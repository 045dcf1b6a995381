"""Every bound of a link, each with its reason; their relations are checked at import."""

from errors import check_limit

HEARTBEAT_S = 5.0
"""An end that answers no ping for this long, and half as long again, counts as dead, and the connection is closed: a
caller that is gone, or a server of an older version, which sends no beats."""
BEAT_S = 0.5
"""The answering end says at least this often that it is there: 60 bytes and 20 µs."""
SILENT_S = 1.25
"""A link whose other end has said nothing for this long is given up: two beats are missing. A caller then waits for
less than two seconds until another server serves it."""
LISTEN_S = 0.1
"""How often a link looks whether the other end is silent."""
STOOD_STILL_S = 0.5
"""A process that is late by this much has stood still itself: silence is counted anew from then on."""
CONNECT_S = 2.0
"""A connection is made in milliseconds; after this long the attempt is given up."""
RECONNECT_S = 0.03
RECONNECT_DOUBLINGS = 4
"""The first pause before a lost connection is made anew, and how often it doubles: to half a second, so that a server
that has restarted is found before its callers stop waiting for it (`gateway.limits.HOLD_S`)."""
CHALLENGE_S = 5.0
"""A caller answers a challenge in milliseconds; more than CONNECT_S, so that a slow one fails by its own limit."""
MAX_CHALLENGES = 4_096
"""Challenges that nobody has answered yet, 100 bytes each. Above it the oldest ends: an honest caller answers within
milliseconds, so a stranger who asks for thousands a second does not end its challenge."""
STRANGERS_PER_S = 1
"""Callers of a version that is not spoken here that one process logs in a second: anybody can pose as one."""
DEADLINE_S = 5.0
"""A call without a reply by then ends with `outcome_unknown`; must exceed the setnode's and the wallet's own waits."""
MAX_IN_FLIGHT = 20_000
"""Calls without a reply on one link, about 1 KB each; above it a call is refused at once. Calls whose callers have gone
count, too: the other end still works on them."""
CALL_BYTES = 1_000
"""What a call costs apart from its bytes: its objects, its future, its place among those that wait."""
QUEUED_BYTES = 16 * 1024 * 1024
"""Of calls that wait, each with CALL_BYTES more, while a frame cannot go out because the other end does not read; above
it a call is refused at once. Creates of full length (64 KB) a thousand a second need half of it in 100 ms; a server
that is frozen for longer is given up (SILENT_S)."""
FAILURES_PER_S = 20
"""Failed calls that one process logs in a second: a line costs 50 µs, and in a crowd thousands are refused."""
MAX_FRAME_BYTES = 32 * 1024 * 1024
"""Frames are split at half of it, so that only a single request of that size could exceed it."""
EAGER_CALLS = 32
"""With more calls than this in flight a frame waits GATHER_S for more: each frame costs system calls and a wake-up at
both ends."""
GATHER_S = 0.001
REPLIES_PER_TURN = 32
"""Futures resolved in one turn of the loop: the first callers of a large frame go on before the last are resolved."""
REPLIES_PER_S = 32_000
"""The same for each second that a turn takes, if that is more: in long turns much else is done."""
SWEEP_S = 0.05
"""Shortest pause between two searches for overdue calls: they are ended in groups."""
LOAD_S = 0.05
"""How often the answering end says how long requests wait: twice in a window of the gateway's admission."""
LOAD_STEP_MS = 2
"""Waits are told in steps of this length: an idle server says nothing."""
LEAVE_S = 0.1
"""A process that stops has told its callers so, and still answers what they send in this time: twenty turns of a busy
loop."""
OPENS_CROWD = 500
CREATES_CROWD = 200
"""Fewer opens, or creates, that wait at a server are no crowd: what it does in some tens of milliseconds."""
LOAD_KEPT_S = 0.5
"""What was told counts for so long; a server that says nothing any more is idle, or its link ends soon."""
CLOSE_S = 0.3
"""For closing a connection: one caller's at a stop, or one that has failed."""
OUTBOX_BYTES = 64 * 1024 * 1024
"""Of envelopes shown (JSON, up to 1 MB each) and of lists that wait to be sent to one caller; above it one that does
not read gets `outcome_unknown` in their place. Other replies are small, and as many as its calls: MAX_IN_FLIGHT bounds
them."""
ROW_BYTES = 200
"""What a row of a list (an entry of a wallet, a card, a result of a payout) counts as: about what it takes in a frame.
A card with a long greeting takes up to twice as much."""

check_limit(CONNECT_S < CHALLENGE_S, "a challenge must outlive the attempt that asked for it")
check_limit(CONNECT_S < DEADLINE_S, "a connection attempt must end before a call would")
check_limit(OUTBOX_BYTES > 2 * MAX_FRAME_BYTES - 1, "a full frame must fit beside the one that is being sent")
check_limit(QUEUED_BYTES <= MAX_FRAME_BYTES, "what was queued must go out in a frame or two")
check_limit(2 * BEAT_S < SILENT_S, "one late beat must not end a link")
check_limit(BEAT_S + STOOD_STILL_S < SILENT_S, "beats that could not be read must not end a link")
check_limit(SILENT_S < DEADLINE_S, "a link must end before the calls that wait for a dead server")
check_limit(SWEEP_S < DEADLINE_S, "overdue calls must be found near their deadline")
