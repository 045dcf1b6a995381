"""The wallet: the users' money, a service of its own with its own Postgres (floor 5).

What lives here, in the order a payment meets it: `service` (the room behind the link), `channels` (how a payout
leaves escrow), `batcher` (group commit), `draft` (what a request gets, on arrival), `decide` (the pure rules of one
batch), `ledger` (the one transaction that writes), `accounts` (names to numbers), `recent` (the creates of a moment
ago), `statements` (reads). SQL stands in `queries/*.sql`.

May import: `wire`, `envelope`, `runtime`; never another room of this floor.

Promise: money moves at most once per order number, made by the caller before the first try; a repeat gives the
first answer; nobody is answered before the commit; all postings sum to zero, because one row is both of them.
How it fails: full or without database → Unavailable, and whether the outcome is known is said; a bad order is
refused alone and never holds up the others of its batch; a broken invariant is counted, logged and refused.
"""
