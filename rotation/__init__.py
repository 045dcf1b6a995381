"""Day tables on their way out (floor 6): planned, proven, fenced, detached, exported, verified, and only then dropped.

A day leaves the hot database by proof, never by age. Each step is one row of `day_register` further on, guarded in SQL
(`schema/set/0004_days.sql`), and may be killed and run again: what is done is read from the catalog and the register,
never remembered. `steps` and `archiving` are the way of one day, over the connections of `sessions` (`exclusive`: one
rotation a SET at a time); `obstacles` and `proof` say what stands in its way; `fence`, `detach`, `drop` change tables,
each under a short `lock_timeout` (`patience`); `archive_seam` is what it asks of the archive; `facts`, `plan`, `survey`
look ahead; `daemon` does the ordinary days alone; `crash` names the places where a test may kill all of it.

May import: `audit`, `archive`, `wire`, `schema`, `sharding`, `envelope`, `runtime`. Promise: opens of other days do not
wait for it, and what it could not prove stays where it is, with the reasons. Fails by Refused (`rotation_busy`,
`day_unproven`, `day_too_young`, `day_unknown`, `step_refused` …) and Unavailable (`rotation_waits`).
"""
