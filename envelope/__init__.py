"""The rules of red envelopes (floor 1): pure, synchronous, standard library only.

What lives here: money, limits, the ways to split, the claim log, what may be decided, outcomes,
invariants, errors. May import: nothing but the standard library and this room. Promise: the same input
gives the same answer, on every machine and in every process. No clock, no randomness, no I/O: time, seeds
and settings come in as arguments. Amounts are ints in fen. How it fails: what users meet every day is a
value; a caller's fault is `Refused`; money that would not add up is `InvariantBroken`, raised before
anybody is answered.
"""
