"""The audit (floor 5): read-only checks over SETs, archive and wallet, while traffic runs.

In the order of an audit: `proof` (the whole), `snapshot` (what is read, and where it is), `day` (one day of a SET,
merged by `merge_cursor`), `envelopes` (one log), `matching` (SET against wallet), `cold` (archived days, the register's
sums), `sums`, `report`. SQL stands in `queries/*.sql`.

May import: `archive`, `wire`, `schema`, `sharding`, `envelope`, `runtime`, `errors`.

**Why it is consistent without a common transaction.** Money enters an escrow before its envelope exists and leaves it
after its claim is committed. So the audit takes a snapshot of the wallet, then one of each SET, then one more of the
wallet: what the first shows as paid must be claimed in the SET; what the SET shows as claimed and no longer pending
must be paid in the last. Money in flight is counted, not reported as a violation.

**What it finds.** All balances together are not 0; a balance is not the sum of the account's transfers; an escrow does
not hold what is left of the funds of its day and slot; a log does not replay from its seed; a header, or a named
receiver, is not the one that was paid for; an envelope without its fund, or a fund older than PENDING_S without its
envelope; a claim neither paid nor pending nor stuck, one whose payout is pending for longer than LATE_S, or stuck; a
transfer of which either account, the user in whose history it stands, amount, kind, envelope or order number does not
follow from a claim, a refund, a create or a deposit; a closed day whose sums are not the register's; a dropped day
whose archive cannot be verified. Each violation names the envelope, order or account. Every edit of one row in a column
that money depends on is among them (tests/integration/audit/test_money_columns.py, which also lists the columns that it
does not read, and why).

**What it does not find.**
- to whom a deposit should have gone, and how much: there is nothing to compare it with;
- the fields of a header that was made before headers were bound to their money (its fund has no hash);
- rows removed on both sides, with their money, while the day is hot; how often a user tried a wrong password;
- the receivers of a named envelope from before they were in its hash;
- what was done with a user's token, or with a gateway's key: it looks like a user's wish.

**Cost.** Each audit reads all history, archives included; with `only` (`hongbao audit --day`) one business day. It
holds ACCESS SHARE locks on each SET's tables, so detaching and dropping days wait, and snapshots that hold back
vacuum. It never writes.

Tests: tests/integration/audit/test_audit.py edits rows one kind at a time and names the check that must report each.
"""
