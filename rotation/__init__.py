"""Rotation: business days leave the hot tables by proof, never by age (floor 7).

Each day goes `hot → closed → detached → exported → verified → dropped`. What a run does to it, in `steps` and `drop`:
prove that the day is over (`day_proof`), put a fence round it (`fence`), prove it again behind the fence, enter it into
the register as closed, detach it (`detach`), export it and read the archive back (`archiving` through `archive_port`),
and, only when asked and after its retention, drop it. `facts`, `plan` and `survey` say what would happen; `daemon` and
`background` do the ordinary days without an operator; `wiring` builds a rotation for each SET of an installation.
`free_names` makes room at once when the clock of a sandbox has passed weeks.

Authority. `day_register` alone says where a day's rows are; no row means hot. A guard in SQL (schema/set/0004_days.sql,
0006_closing.sql) proves each step once more in the transaction that takes it, or refuses it (HB003, HB004), even to
the owner of the tables. Whether fen are still owed is read from the wallet: transfers and escrow accounts.

State. Nothing is remembered between runs. How far a day has come is read from the register and the catalog: fences,
pending detaches, the schema in which leaves stand. So a run may be killed anywhere (`points`), and the next one
continues from there.

What is trusted. Not the operator's clock: `check_clock` refuses a business date more than a day from Postgres' own, and
the guard closes no day that is younger than two days by Postgres' date. Not the first proof: rows may be written until
the fence stands, so the second one counts. Not the archive: it is read back and compared with the tables both ways,
after the export and again just before a drop. Trusted are Postgres' catalog and, for which databases are on this SET,
the topology file.

Why it is safe. The fence is a row trigger on the day's tables, enabled ALWAYS: a leaf's grants are not checked when a
row comes through its parent, so revoking could not keep writers out. Making it waits for running writers of that day
and for no others, each try within LOCK_TIMEOUT_MS, because other statements queue up behind a waiting DDL. `DETACH
CONCURRENTLY` takes no lock that an open of another day meets. A SET has one rotation at a time, and no move takes its
days over meanwhile (`lock`). A drop is one transaction per database, with its register entry and its line of the
operation log.

How it fails. Refused, with the day where it was: `day_unproven` (with what stands in the way by name), `rotation_busy`,
`clock_wrong`, `day_too_young`, `day_unknown`, `step_refused`, and what the archive refuses. Unavailable:
`rotation_waits` (names the processes that hold a table) and `database_unavailable`; the same call continues later. A
fence that a run left round a day that is not closed, because it was killed, lost its database or gave up waiting for a
lock, refuses that day's late creates until the next run proves the day or lifts the fence.

If a verified archive is later found spoilt, it is exported anew from the tables, if these still hold the rows that were
exported: the digest in the register or the old manifest tells (`archive.export`). Otherwise `archive_differs` is
refused.

May import: `days`, `installation`, `audit`, `archive`, `wire`, `schema`, `sharding`, `envelope`, `runtime`. Reasons:
docs/decisions/0011-days-that-go.md. Tests: tests/integration/rotation, tests/faults/test_rotation_killed.py.
"""
