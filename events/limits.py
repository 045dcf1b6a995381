"""Every bound of this room in one place, with its reason; relations between them are checked at import."""

from errors import check_limit

# Reading the log.
POLL_S = 0.1
"""Between two looks at a log in which nothing was new. One look costs Postgres about 0.1 ms; while it takes longer than
this (a transaction in the same Postgres has been open for long), the pause is as long as the look."""
READ_ENTRIES = 16
"""Log entries read at once. An entry is a commit: 2,000 claims at most, about 200 KB."""
ENTRIES_IN_FLIGHT = 64
"""Entries of one sink that are read and not delivered: what it holds in memory, and what a crash repeats at most."""
SAVE_S = 0.2
"""Between two writes of a sink's cursor. A crash repeats what was delivered since the last one."""
QUIET_SAVE_S = 10.0
"""Between two writes of a cursor that has passed no entry. A write is a commit: the cursor would move for it, and be
written again, for ever."""
DATABASE_S = 10.0
"""A statement that has not ended by then counts as lost; its connection is dropped, and another one is made."""

MAX_AWAY_S = 5.0
"""The longest pause before a SET that was away is asked again."""

# Sinks.
LOOK_S = 1.0
"""Between two looks at the list of sinks: how long a change by an operator takes to hold."""
MAX_SINKS = 20
"""Sinks of an installation. Each reads the log for itself."""
MAX_BATCH = 1_000
"""Events in one call of a sink that takes several at once; about 400 KB."""
MAX_SECRETS = 5
"""Secrets that sign a webhook's calls at a time: the new one, and older ones while they are valid."""
TAIL_S = 30.0
"""A tail whose reader has not been heard of for so long does not count any more."""

# Deliveries.
LANES = 32
"""Calls of one sink in one SET at a time. Events of one envelope go through one lane, one after the other."""
LANE_EVENTS = 64
"""Events that wait in a lane; more are read when these have gone."""
CALL_S = 15.0
"""A receiver that has not answered by then has failed (Standard Webhooks: 15 to 30 seconds)."""
CLOSE_S = 5.0
"""A sender that has not closed its connections by then is left: other sinks are looked after by the same task."""
BODY_S = 1.0
"""How long the body of an answer is awaited, so that the connection can be used again; what counts is the status."""
FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 60.0
"""Pauses after failures of the receiver double from the first to the last, with jitter."""
MAX_RETRY_AFTER_S = 3_600.0
"""The longest `Retry-After` of a receiver that is obeyed."""
APART_TRIES = 4
"""An event that was refused so often, while others were accepted, is retried apart from them."""
DISABLED_AFTER_S = 3 * 86_400.0
"""A sink of which no call has succeeded for so long is disabled: an operator looks."""
ASKED_S = 600.0
"""A receiver is disabled only by a process that has itself asked it in vain for so long: for most of the three days the
process may have been away, and the receiver well."""

# Events that are retried apart.
RETRY_PAUSES_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Pauses before each try (Standard Webhooks' schedule, three days in all); then the event is a dead letter."""
RETRY_LOOK_S = 1.0
RETRIES_AT_ONCE = 100
MAX_RETRIED = 10_000
"""Envelopes of one sink in one SET of which an event is retried apart; the process has their IDs in memory."""
MAX_WAITING = 100_000
"""Events of one sink in one SET that are retried apart, or wait behind such a one: in Postgres alone, 65 MB.

At one of these two bounds, which each lane may pass by one event, the events of other envelopes wait as well, and the
sink counts as failing."""

# What is kept.
TRIM_S = 2.0
TRIM_ENTRIES = 5_000
"""Entries deleted in one statement, so that none takes long."""
KEPT_S = 7 * 86_400.0
"""Entries that a sink has not received by then are deleted; the sink notes what it lost."""

check_limit(READ_ENTRIES <= ENTRIES_IN_FLIGHT, "what is read at once must fit into memory")
check_limit(DISABLED_AFTER_S < KEPT_S, "a sink must be disabled before its entries are deleted")
check_limit(ASKED_S > CALL_S + 3 * MAX_PAUSE_S, "a receiver must be asked several times before its sink is disabled")
check_limit(BODY_S < CALL_S, "a body that does not come must not make a call fail")
check_limit(MAX_RETRIED < MAX_WAITING, "an envelope has at least one event that is retried")
check_limit(TAIL_S > 3 * LOOK_S, "a tail must be able to miss a beat")
