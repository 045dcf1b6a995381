"""Out of Postgres or the archive into memory: what was stored becomes an actor again, or a last answer.

`loader` wakes actors, many in one query; `reading` turns rows into claim logs and guests; `cold` answers for
envelopes of days that nothing can change any more, without an actor.
"""
