"""Databases on their way to another SET (floor 6): by time, or live with a stall of two seconds at most.

What lives here: the two moves as lists of steps (`by_time`, `live`), each step safe to run twice; the journal that says
how far a move has come; leaves made, copied, compared, fenced and dropped. A move never forwards requests: who serves a
database is the topology's word, and that changes in one step, once both copies are proven to be the same.

May import: `wire`, `schema`, `sharding`, `runtime`, `envelope`, and of `gateway` how long it holds a request. Promise:
killed at any step and run again it finishes; until the topology has changed it can be undone; nothing is dropped that
was not compared. No rotation is at work on either SET while days are taken over. How it fails: `Refused` before
anything was changed, `Unavailable` where running it again is the answer, `InvariantBroken` where the copies differ.
"""
