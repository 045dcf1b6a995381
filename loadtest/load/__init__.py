"""`./run loadtest`: simulated people against a whole system, and proof afterwards that the money is right.

`profiles` has the phases of a run; `clients` runs locust (headless, with its web page, or distributed) as processes of
their own, because locust patches the sockets of the process that imports it; `run` starts the stack and the clients and
makes the proof; `report` has the figures, `plots` the pictures. The people themselves are in `loadtest.users`, the
open-loop generator for more than locust can send in `loadtest.openloop`.

The JSON (`--json FILE`) is `report.LoadReport`. Exit status 0 only where no client received a contradiction or an
unexpected failure, every `opened` is in the claim log, payouts are done and the audit holds.
"""

from loadtest.load.command import command

__all__ = ["command"]
