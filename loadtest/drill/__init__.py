"""The drill of a day's way out, on a stack of its own: what a DBA's tools take, and what users feel of it.

A stack of two SETs in the production layout (250 slots each) gets a past day of a million paid claims by SQL. Then,
with opens of today arriving at a fixed rate: prove, fence and detach; export, read back, drop; details before and after
compared; a database restored; next month's tables under the same names; a move by time begun and a live one made. At
the end the audit. `past` makes the day, `stages` are the steps, `command` runs and shows them.
"""
