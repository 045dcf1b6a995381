"""The rules of red envelopes (floor 1): pure and synchronous.

What lives here: money, limits, the ways to split, the claim log, what may be decided, outcomes,
invariants, errors. May import: the standard library, this room, and msgspec for its structs (an answer is
made for every open). Promise: the same input gives the same answer, on every machine and in every process.
No clock, no randomness, no I/O: time, seeds and settings come in as arguments. Amounts are ints in fen.
How it fails: what users meet every day is a value; a caller's fault is `Refused`; money that would not add
up is `InvariantBroken`, raised before anybody is answered.
"""
