"""Periodic work that no client asks for: payouts, expiry, the sweeper of unfinished creates.

`payouts` pays every committed claim; `expiry` closes envelopes whose time is up and so returns what is left; `sweeper`
undoes creates whose money is in escrow without an envelope, with `undo`, its statements in the SET's Postgres;
`fund_cursors` sets it back where the wallet was restored.

May import: `setnode.commit` (fences), `setnode.actors`, `setnode.partition_ranges`, `setnode.limits`, `wire`,
`archive`, `schema`, `sharding`, `envelope`, `runtime`. Promise: each round may be repeated, by any server and after any
crash, and gives the same end (tests/integration/setnode/test_payouts.py, test_expiry.py, test_creates.py). A round that
fails is logged, and the next goes on; what makes it fail is set apart, so that the others are done
(docs/decisions/0030-what-is-set-apart.md).
"""
