"""The other ways to hand out shares, written as well as we can write them, as baselines for the benchmark.

Each module is one contender behind `baseline.Baseline`: it prepares envelopes, opens shares, writes to Postgres what it
has answered but not yet stored, and can be killed in mid-run. `drive` is the closed loop of callers, `books` the money
check that all share: the answers are compared with Postgres, and an answer that is not there counts as lost.

    pessimistic    begin; select … for update; insert; update; commit
    optimistic     a version column, with and without trying again
    fifo           one actor per envelope, one transaction per claim
    memory_first   memory answers, a writer brings the claims to Postgres behind
    redis_lua      a Lua pop in Redis, a writer brings the claims to Postgres behind
    redis_client   the same pop, asked for by Redis' own client in C
    copying        not a way to hand out shares but the limit: COPY of the same rows into our own tables

They stand on plain unpartitioned tables with the keys that suit them, one database connection per transaction in
flight, prepared statements kept by asyncpg, and no RESET between two uses of a connection. Fails as `baseline.Gone`
where a contender was killed before it answered. Part of the repository, not of the wheel: only `./run bench` needs it.
"""
