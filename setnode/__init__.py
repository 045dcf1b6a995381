"""One server of a SET (floor 5): the actors of its envelopes and everything that writes to the SET's Postgres.

The life of a request reads downwards: `room` takes it off the link, `registry` finds the envelope's actor (and
`loader` wakes it from the database), `actor` decides in order of arrival, `committer` writes what all ready actors
decided in one transaction under an `admission` entry, `store` holds the SQL. `creator`, `expiry`, `sweeper` and
`payout` bring envelopes to life, to their end and their money to the wallet.

May import: `archive`, `wire`, `schema`, `sharding`, `envelope`, `runtime`. Promise: nobody is answered before the
commit; answers of one envelope come in order of arrival; whatever is lost in memory is found again in Postgres. Fails
by saying `busy` or `outcome_unknown`, never by guessing.
"""
