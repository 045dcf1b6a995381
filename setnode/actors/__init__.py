"""One envelope: its actor, the requests that wait in its mailbox, and what it says of itself.

`registry` finds the actor, `actor` decides in order of arrival with at most one transaction in flight, `batch` is
what it decided and wants written. `sight` says who may see, `views` and `shown` how, `doubt` what may be told when a
commit's outcome was lost. No connection, no task and no SQL in here: the room around it calls.
"""
