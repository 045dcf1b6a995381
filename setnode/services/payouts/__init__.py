"""Payouts: credits every committed claim in the wallet, after the commit and in batches, until the result is final.

`payer` has the workers that call the wallet; `payout_backlog` the batches that are not finished, which it takes in and
settles by the wallet's results; `finisher` records what is final; `payout_batch` holds the orders of one committed
batch; `payout_queues` holds batches that may be paid and batches that wait for a retry; `intents` reads batches back
from Postgres; `stuck` shows operators what was given up, and gives it back to the payer.

May import: `setnode.partition_ranges`, `setnode.actors.batch`, `setnode.limits`, `setnode.traces`, `wire`, `runtime`.

Authority. Postgres of the SET says what must be paid: the `payout_batch` row is the intent, written in the statement
that commits its claims. The wallet says what has been paid: one transfer for each order number, by a unique key.

State. A batch is committed (a row), held in memory by a backlog, spilled (only its time of retry is remembered), or
finished (every order PAID or in `payout_stuck`); then its row is deleted. An order is PAID, REFUSED, or UNKNOWN.
Nothing is marked between: a row that stands has unpaid orders, or orders whose result was lost.

What is trusted. The claims as Postgres holds them; memory only for batches that this process committed itself.
Receivers and amounts that are read back come from `claim` and `envelope`, never from the intent.

How it fails. A payer that dies leaves its rows; its next life reads them back, and after ADOPT_AFTER_S any other server
of the SET. A wallet that is away costs no order an attempt. An order without a final result is retried with the same
number, up to PAY_ATTEMPTS tries; then it is stuck, an operator is needed, and its money stays in escrow. A refusal is
final and stuck at once. Orders that wait for a retry have a queue, a worker and a bound of their own. An order that the
wallet cannot read, and a finished batch that Postgres does not accept, are set apart; the others go on.

Why it is safe. Order numbers are derived from (envelope, seq), so any number of payers may send the same order any
number of times and the wallet pays it once: two payers of one batch are only wasteful (docs/decisions/0004; kept by
tests/integration/setnode/test_payouts.py and the audit's `claim_is_paid_or_waiting`).
"""
