"""Everything that users wait for and Postgres must have: group commit over two lanes, under admission.

`claims` and `creates` are the lanes, `committer` takes what is ready whenever a connection comes free, `admission`
(memcached, CAS) says how many may be inside, `store` has the SQL. `fences` are the refusals that a write meets,
`rivals` tells the SET's other servers what was written to an envelope of theirs.
"""
