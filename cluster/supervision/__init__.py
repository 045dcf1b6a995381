"""Processes kept alive: a child that dies with us, parts that know whether they work, and who starts them again.

`child` and `logfile` are one process; `parts` is what all supervised things have in common, `services` our own
processes and `memcached` one of others; `supervisor` starts again what ends by itself.
"""
