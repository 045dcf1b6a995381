"""The rules of red envelopes (floor 1): pure and synchronous.

What lives here: money, limits, texts, the ways to split a total, the claim log, the ladder of outcomes (`decide`),
invariants, and `verify`, which recomputes a closed envelope from its published JSON.

May import: `errors`, the standard library, and msgspec for its structs (one `Answer` is made for every open).

Promise: the same input gives the same answer, on every machine and in every process. There is no clock, no randomness
and no I/O: time, seeds and settings come in as arguments. Amounts are ints in fen (tests/unit/envelope).

How it fails: outcomes that users meet every day are values (`outcomes.Outcome`); a mistake of the caller raises
`Refused`; a log whose money does not add up raises `InvariantBroken` before the change is made. What is checked when:
`invariants`.
"""
