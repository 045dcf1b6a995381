"""The whole stack: from a configuration to parts that run, and the record by which commands find them.

`config` says how large, `plan` who listens where, `stack` starts it in order of dependency as one `async with`,
`record` and `topologyfile` are what others read; `daytables` and `rotating` are the seams to what goes on day by day.
"""
