"""`./run plan`: how many SETs, servers, gateways and disks a load needs, from what was measured on this machine.

`sizing` is the arithmetic, pure; `loadtest.group_commit` the model of one SET's latency, pure; `measured` has the
figures, from a bench file or a short measurement; `check` lets the model predict a run and compares. docs/capacity.md
says what is measured and what is extrapolated. `--check` keeps the promise that a predicted p99 is within 30 %.
"""
