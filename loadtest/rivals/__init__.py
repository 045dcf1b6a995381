"""The other ways to hand out shares, written as well as we can write them, to be measured beside ours.

Each module is one contender behind `rival.Rival`: it prepares envelopes, opens shares, settles what it owes to
Postgres, and can be killed in mid-run. `drive` is the crowd that asks, `books` the money check that all of them share:
what users were told is what Postgres holds, and what is not there is counted as lost.

    pessimistic    begin; select … for update; insert; update; commit
    optimistic     a version column, with and without trying again
    fifo           one actor per envelope, one transaction per claim
    memory_first   memory answers, a writer brings the claims to Postgres behind
    redis_lua      a Lua pop in Redis, a writer brings the claims to Postgres behind
    redis_client   the same pop, asked for by Redis' own client in C
    copying        no rival but the limit: COPY of the same rows into our own tables

They stand on plain unpartitioned tables with the keys that suit them, one database connection per transaction in
flight, prepared statements kept by asyncpg, and no RESET between two uses of a connection.
"""
