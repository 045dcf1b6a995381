"""The audit (floor 5): read-only checks over SETs, archive and wallet, while traffic runs.

In the order of an audit: `proof` (the whole), `snapshot` (what is read, and where it is), `day` (one day of a SET,
merged by `merge_cursor`), `envelopes` (one log), `matching` (SET against wallet), `cold` (archived days, the register's
sums), `sums`, `report`. SQL stands in `queries/*.sql`.

May import: `archive`, `wire`, `schema`, `sharding`, `envelope`, `runtime`, `errors`.

**Why it is consistent without a common transaction.** Money enters an escrow before its envelope exists and leaves it
after its claim is committed. So the audit takes a snapshot of the wallet, then one of each SET, then one more of the
wallet: what the first shows as paid must be claimed in the SET; what the SET shows as claimed and no longer pending
must be paid in the last. Money in flight is counted, not reported as a violation.

**What it finds.** All balances together are not 0; a balance is not the sum of the account's transfers; a log does not
replay from its seed; an envelope without its fund, or a fund older than PENDING_S without its envelope; a claim neither
paid nor pending nor stuck, or paid in another amount, from another escrow, or in another user's history; credits
without a claim; a closed day whose sums are not the register's; a dropped day whose archive cannot be verified. Each
violation names the envelope, order or account.

**What it does not find.**
- the account that a payout credited, if it is not that of the user in whose history it stands;
- the account that a fund's transfer debited, and its kind: the sender is read from `fund`;
- transfers of kind 0 (deposits) between accounts other than `outside` and a user;
- an escrow whose balance differs from what is open in its day and slot: escrows are not compared with envelopes one by
  one;
- a seed replaced before it determined an amount, or together with all amounts and credits: the commitment that the
  sender received is not stored;
- rows removed on both sides while the day is hot, or edited columns that nothing is computed from (greeting, guests);
- payouts that are pending or stuck for long: they count as in flight.

**Cost.** Each audit reads all history, archives included. It holds ACCESS SHARE locks on each SET's tables, so
detaching and dropping days wait, and snapshots that hold back vacuum. It never writes.

Tests: tests/integration/audit/test_audit.py edits rows one kind at a time and names the check that must report each.
"""
