"""Users (floor 7): what an installation holds of one user, exported; and their name taken out of all of it.

What lives here: `export` (records, and sums that must add up), `documents` (how they are written); `forget` (the
procedure), `obstacles` (what forbids it), `survey` (where a name stands), `headers` (written anew, sealed), `steps`
(a day, with its archives), `registers` (after a kill), `journal` (how far it came), `sessions`, `tables` (rows of one
user in Postgres), `installed`, `progress`, `limits`. SQL stands in `queries/*.sql`; what changes rows, in
schema/set.sql and schema/wallet.sql.

May import: `installation`, `days`, `setnode` (seals, what servers tell each other), `audit` (snapshots), `archive`,
`wire`, `schema`, `sharding`, `envelope`, `runtime`, `errors`.

**Authority.** A row is the user's if its money is: a header whose fund, or a claim whose credit, stands in the history
of the account that is forgotten. So a user who comes back under the old name while the work goes on, with an account of
their own, loses nothing and is not mixed up with the one who left. Guests have no money: of them the name decides.

**Promise.** Only names, greetings of the user's own envelopes, seals and header hashes change; amounts, order numbers,
times and balances never (`forget_name`, `begin_forgetting` and `replace_header_hashes` can change nothing else, and
`archive.rename` compares what it wrote). A header is written anew only if its seal and its hash fit before. Every step
leaves a line in `forget_log` of the wallet; after a kill the command, run again, does what is left
(tests/integration/users/test_killed.py). The audit is clean before and after; while a user is being forgotten, the two
sides of an envelope may have different names, and `hongbao audit` says so instead of reporting them.

**How it fails.** Refused with a stable code before anything was changed: `unknown_user`, `already_forgotten`,
`user_not_ready` (with all that is in the way), `forget_busy`, `not_confirmed`, codes of the archive; later, of what
another hand changes meanwhile: `header_differs`, `forget_unfinished`. Unavailable if a SET or the wallet is away.
"""
