"""The audit (floor 5): read-only checks over SETs, archive and wallet, while traffic runs.

In the order of an audit: `proof` (the whole), `snapshot` (what is read, and where it is), `overdue` (what should have
been closed), `day` (one day of a SET, merged by `merge_cursor`), `envelopes` (one log), `matching` (SET against
wallet), `cold` (archived days, the register's sums), `digests` and `proofs` (days that were proven before), `one` (a
single envelope, for an operator who asks), `sums`, `report`. SQL stands in `queries/*.sql`.

May import: `archive`, `wire`, `schema`, `sharding`, `envelope`, `runtime`, `errors`.

**Why it is consistent without a common transaction.** Money enters an escrow before its envelope exists and leaves it
after its claim is committed. So the audit takes a snapshot of the wallet, then one of each SET, then one more of the
wallet: what the first shows as paid must be claimed in the SET; what the SET shows as claimed and no longer pending
must be paid in the last. Money in flight is counted, not reported as a violation.

**What it finds.** All balances together are not 0; a balance is not the sum of the account's transfers; an escrow does
not hold what is left of the funds of its day and slot; a log does not replay from its seed; a header, or a named
receiver, is not the one that was paid for; an envelope without its fund, or a fund older than PENDING_S without its
envelope; a claim neither paid nor pending nor stuck, one whose payout is pending for longer than LATE_S, or stuck; an
envelope that is past its end and still open, though its SET has gone on since (`overdue`); a transfer of which either
account, the user in whose history it stands, amount, kind, envelope or order number does not follow from a claim, a
refund, a create or a deposit; a closed day whose sums are not the register's; a dropped day whose archive cannot be
verified. Each violation names the envelope, order or account. Every edit of one row in a column
that money depends on is among them (tests/integration/audit/test_money_columns.py, which also lists the columns that it
does not read, and why).

**What it does not find.**
- to whom a deposit should have gone, and how much: there is nothing to compare it with;
- a seal of a header that was edited (the audit has no key): such an envelope freezes, and is named once it is past its
  end and not closed;
- a byte that was changed in an archive after its day was proven, if the file's size stayed: manifest and sizes are
  compared each time, bytes only by `full` and by `hongbao archive verify`;
- an envelope that is past its end in a SET that writes nothing any more (alarms say that it stands still), or in a
  sandbox whose clock is ahead;
- the fields of a header that was made before headers were bound to their money (its fund has no hash);
- rows removed on both sides, with their money, while the day is hot; how often a user tried a wrong password;
- the receivers of a named envelope from before they were in its hash;
- whatever a superuser makes a database answer: one who puts views in place of tables, or other functions in place of
  Postgres' own, shows every audit what they like (a policy that hides rows ends it with an error);
- what was done with a user's token, or with a gateway's key: it looks like a user's wish.

**Days that were proven before.** A part of a day (its slots in one place of one SET) that holds, and in which nothing
is open or on its way, is read once. Its digest, over the very rows that the proof reads on both sides, is kept in a
file signed with the installation's key, which no database has (a part whose rows changed, or that `full` has read and
found wrong, loses its proof); later audits have Postgres compute the digest again and read the part only if it differs.
Of a dropped day that was proven, the archive's manifest (its signature, and the digest that the register names) and the
sizes of its files are compared: reading every byte of all archives would hold snapshots and locks for longer each day.
`full` (`hongbao audit --full`) believes no digest. Balances, escrows, deposits and what no SET accounts for are checked
in full each time.

**Cost.** Each audit scans the wallet's transfers and the rows of days that are not proven by a digest, and has the
databases hash those that are; with `only` (`hongbao audit --day`) it reads one business day whole. Memory is bounded,
also if a SET has lost all its rows; payouts that wait are held whole. It holds ACCESS SHARE locks on each SET's tables,
so detaching and dropping days wait, and snapshots that hold back vacuum, to its end. It never writes to a database.

Tests: tests/integration/audit/test_audit.py edits rows one kind at a time and names the check that must report each;
test_digests.py edits days that are proven.
"""
