"""The schema of both databases (floor 3): DDL, migrations, names of tables, the day tables.

`set.sql` and `wallet.sql` are the schema to read; the numbered files in `set/` and `wallet/` are the migrations that
build it. Both give the same catalog (tests/integration/schema/test_schema.py); an applied migration is never changed
(`migrate` compares its SHA-256). `names` builds the names of tables, from digits only; `day_tables` makes the
partitions of coming days, `headers` decodes rows of `envelope`, `jobs` reads when audits and backups have last run,
`sandbox` gives the databases of a sandbox its clock.
`cluster_setup` makes database and roles in a cluster, with `cluster_rights` and `scram`.

May import: `sharding`, `envelope`, `runtime`, `errors`.

What the database refuses, whatever the code above does:
- two claims of one user or of one seq of an envelope, two transfers of one order number, two creates of one key or ID
  (unique keys); a seq outside the number of shares that the row itself names;
- changes and deletions of envelopes, claims and transfers by the roles of the services (grants);
- a user, escrow or channel balance below zero, a transfer with an amount below one, more paid out for an envelope than
  was paid in for it (`fund_left`), whatever the amounts of its claims are (CHECK);
- a deposit that does not go from outside to a user (trigger `transfer_deposit`);
- rows of a day that is closed, and steps of a day without their proof (triggers of `day_register`).

What it does not refuse: a wrong amount of a claim, unless it is below 1. That an amount follows from the seed is
checked by `envelope` when a log is loaded and by the audit; that the claims of an envelope add up to its total, also
when its day is closed. Until then a wrong amount is paid out of what was paid in for the same envelope: its last claims
or its refund get stuck (`fund_exceeded`), and no other envelope lacks anything.
"""
