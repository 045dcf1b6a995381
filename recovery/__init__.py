"""Recovery: what a wallet that was restored to an earlier instant has lost, and making it good from the SETs (floor 8).

What lives here: `lost`, the creates and credits that the SETs know and the wallet does not; `repair`, doing them again
in an order that balances cover; `calls`, what is asked of the wallet; `repaired`, what came of it. The other way round,
`claims`: what a restored copy of a SET lacks and the wallet has paid, put back into the copy. `compared` reads both
sides, envelope by envelope.

May import: `audit`, `installation`, `setnode`, `wallet`, `wire`, `runtime` and below.

Authority. The claim logs of the SETs: a header is committed after its money was taken, so a header whose fund the
wallet lacks was paid for in a wallet that is gone; a claim without a credit, that no payout is on its way for, was owed
or paid there. No money is written here but by the wallet itself, under the order numbers and create keys of the first
time.

Into a copy of a SET, which serves nobody yet, go claims that the wallet has paid, after the envelope was replayed with
them: each has to follow from the envelope's seed at its place in the log. Receivers of events are told of them.

Why it is safe. Every order is one that the SET has sent or would send: the wallet takes each number once, so a credit
that it has after all is found paid, a create that it has is found funded, and any number of these commands, and the
payers of the SETs beside them, move each fen once. No envelope is paid more than was paid in for it, because a credit
waits for its fund. What every balance covered when it happened is covered again, in whichever portions it is read
(`test_any_history_is_made_good`). What a sender's balance does not cover is not forced: it is named, and left to an
operator (tests/faults/test_recovery.py).

How it fails: killed anywhere, it is called again. A SET that is away at the beginning ends it before anything is done,
one that goes away later ends it there: what was done stands. Its snapshots are open to the end, which may be long: rows
that are deleted meanwhile are cleaned up afterwards.
"""
