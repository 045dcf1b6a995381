"""The wallet service: accounts, escrows and transfers, in a Postgres of its own (floor 5).

In the order in which a payment passes through it: `dispatch` (requests off the link), `rights` (what the caller's role
and SET permit), `requests` (validation), `channels` and `provider_channel` (how a payout leaves escrow), `queue` and
`batcher` (group commit), `draft` (a request decided and encoded on arrival), `decide` (the rules of a batch, pure),
`ledger` (the one transaction that writes), `accounts` (account numbers by name), `recent` (IDs of the last creates).
Reads: `history` on the sessions of `readers`. No money: `day_places`, where daily limits are counted. `service` wires
them, `limits` holds every bound, SQL stands in `queries/*.sql` and in the function `post` (schema/wallet.sql).

May import: `wire`, `sharding`, `runtime`, `errors`; never another room of this floor.

**Authority.** The table `transfer` says what was paid. `account.balance_fen` is the sum of an account's transfers, and
`fund.left_fen` what is left of an envelope's money: `post` moves both in the statement that inserts the transfers. The
wallet's role may call it and open accounts, and change no row in any other way (`test_money_is_written_by_post_alone`;
functions of their own write the places of a day, which are no money); the owner of the tables could, and the audit
would find it. The caches (account numbers, IDs of recent creates) hold committed facts only and are emptied with every
new connection; `post` writes nothing if a cached account is gone.

**Who may ask for what.** Only an operator deposits; a setnode funds, pays, and takes and gives back places of the day,
for slots that its SET holds by the topology file; a gateway reads (test_rights.py).

**Why money is not paid twice.** The caller derives the order number from what is paid for (`wire.orders`) before its
first try, so a retry carries the same number. UNIQUE (order_no), UNIQUE (create_key) and UNIQUE (envelope_id) of `fund`
refuse a second row, whichever wallet process writes it. A repeat of the same order is answered with PAID or REPLAYED,
a different order or deposit under the same number with `order_conflict`, a different create under the same key with
KEY_REUSED. A balance of a user or an escrow below zero is refused by CHECK.

**What is durable when.** A reply to a write, also to a replay, is sent after the commit that it rests on
(`queries/emit_wal.sql` says why a replay commits, too). Reads see committed rows only; each
ends within READ_DEADLINE_S, also while Postgres is silent (tests/integration/wallet/test_faults.py).

**How it fails.** Queue full, or no connection within the deadline: Unavailable with a known outcome, nothing was sent.
Connection lost or silent during a write: Unavailable `outcome_unknown`; the caller repeats under the same number. A
transaction is never cancelled: its connection is dropped, and a later try finds out whether it committed. A request
that Postgres refuses is tried alone, so it does not fail its batch. An escrow that cannot pay its claims, and a payment
made outside that cannot be booked, are logged and counted as broken invariants; nothing corrects them automatically.

**Outside.** With the provider channel the provider pays, not the ledger: that it pays one order number once is its part
of the contract (`wallet.provider`).

Tests: tests/integration/wallet/test_faults.py (killed backends, lost answers, silence), test_ledger.py (repeats,
conflicts).
"""
