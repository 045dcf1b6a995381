"""`./run loadtest`: simulated people against a whole system, and proof afterwards that the money is right.

`profiles` says who comes when; `clients` runs locust (headless, with its web page, or distributed) as processes of
their own, because locust patches the sockets of the process that imports it; `run` brings up the stack, the clients and
the proof; `report` is what is told, `plots` how it looks. The people themselves are in `loadtest.users`, the open-loop
generator for more than locust can send in `loadtest.openloop`.

The JSON (`--json FILE`) is `report.LoadReport`. Exit status 0 only when nobody heard a wrong answer or an unexpected
failure, every `opened` that anybody heard stands in the claim log, payouts are through and the audit is clean.
"""

from loadtest.load.command import command

__all__ = ["command"]
