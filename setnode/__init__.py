"""One server of a SET (floor 5): the actors of its envelopes, and everything that writes to the SET's Postgres.

The life of a request reads downwards: `dispatch` takes it off the link and checks with `ownership` that this SET serves
the envelope; `actors` holds its actor, which `activation` loads from the database if it is not in memory, and which
decides requests in order of arrival (where daily limits are set, `daily` asks the wallet for a place first); `commit`
writes what all ready actors decided in one transaction under an admission lease. `creation` makes envelopes, on `days`
that have tables; `services` close them and pay; `live` tells gateways of envelopes that they watch. `views` and
`passwords` serve all of these. `service` wires the parts; `settings` are those of the process, `sessions` its
connections to Postgres; `partition_ranges` cuts lists of envelopes into what one query may ask for; `limits` holds
every bound.

May import: `archive`, `wire`, `schema`, `switches`, `sharding`, `envelope`, `runtime`, `errors`.

Promise: a reply is sent after the commit of what it says; replies of one envelope are sent in order of arrival (both:
tests/unit/setnode/test_actor.py, tests/faults/test_order_of_arrival.py); what is lost with the process is found again
in Postgres (tests/integration/setnode/test_commit.py, test_payouts.py). How it fails: with `busy` if nothing was
written, with `outcome_unknown` if it may have been; an outcome is never guessed.
"""
