"""The drill of a day's way out, on a stack of its own: what an operator's tools take, and what users notice of it.

A stack of two SETs in the production layout (250 slots each) gets a past day of a million paid claims by SQL. Then,
while opens of today arrive at a fixed rate: prove, fence and detach; export, read back, drop; details before and after
compared; a database restored; next month's tables under the same names; a move by time begun and a live one made. At
the end the audit. `past` makes the day, `stages` has the order of the steps, `day_steps` and `set_steps` the steps
themselves, `context` what they share, `command` the bars and the report.

Promise: exit status 0 only where every figure reaches its bar, no open failed and the audit holds. It imports nothing
that only benchmarks need (`tests/unit/loadtest/test_needs.py`).
"""
