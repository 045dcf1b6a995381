"""One server of a SET (floor 5): the actors of its envelopes and everything that writes to the SET's Postgres.

The life of a request reads downwards: `room` takes it off the link, `actors` has the one of its envelope (and `wake`
brings it out of the database), which decides in order of arrival; `commit` writes what all ready actors decided in
one transaction under an admission entry. `creating` brings envelopes to life; `rounds` brings them to their end and
their money to the wallet. `service` puts it together: who owns which connection, task and periodic service.

May import: `archive`, `wire`, `schema`, `sharding`, `envelope`, `runtime`. Promise: nobody is answered before the
commit; answers of one envelope come in order of arrival; whatever is lost in memory is found again in Postgres. Fails
by saying `busy` or `outcome_unknown`, never by guessing.
"""
