"""`./run plan`: how many SETs, servers, gateways and disks a load needs, from what was measured on this machine.

`queue` is the model of one SET (group commit as a bulk-service queue), pure; `sizing` the arithmetic, pure;
`measured` where the figures come from (a bench file, or a short measurement); `check` lets the model predict a run
and compares. docs/capacity.md says what is measured and what is extrapolated.
"""
