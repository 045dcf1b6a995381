"""Retention: what an installation keeps beside its live money, by which rule, and what is past it (floor 8).

What lives here: `rules`, how long each kind is kept, by settings; `held`, what `look` finds of a kind; `copies` (base
copies of Postgres and the log they need), `files` (journals of operators, logs of parts that are gone), `letters` (dead
letters of events), `for_ever` (what no rule removes: archives, proofs of days), the kinds; `in_bucket`, those of them
that may be in an object store; `kinds`, all of them; `journal`, what was removed, when, by whom and by which rule.

May import: `backup`, `events`, `archive`, `installation`, `local`, `runtime` and below.

Promise: `look` changes nothing, and `remove` removes what a `look` has named and nothing else, but dead letters that
have become too old since; a line of the journal is durable before the first file of its kind goes
(tests/integration/retention/test_retention.py). No rule names the archive: of a dropped day it is the only copy, and
the audit proves the day from it. What a copy that stays needs to be restored to any instant stays with it
(`backup.retention`).

How it fails: one kind that cannot be looked at or removed (a SET that is away, a backup that runs) says why, with its
code, and the others go on.
"""
