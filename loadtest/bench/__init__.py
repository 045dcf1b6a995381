"""`./run bench`: every figure of docs/performance.md, measured in one run on this machine.

`command` runs the `sections` one after the other; inside a section the contenders take turns for several rounds, and
the median is reported. A section is a question, how it is measured, its figures as JSON, its rows of the table and its
plots. `ratios` holds what the project promises, and which figures of which section it is computed from. Sections that
compare import `loadtest.baselines`; those that `plan` needs (commits, cpu, footprint, payouts) do not.

The JSON (`--json FILE`):

    {"quick": bool, "machine": {…}, "seconds": float, "sittings": int,
     "sections": {"engine": {…}, "http": {…}, …},
     "stolen": {"engine": 0.02, …},   part of all cores' time that the host took meanwhile
     "lasted": {"engine": 412.3, …},  seconds of each section
     "ratios": {"hot100_vs_pessimistic": {"value": 81.3, "bar": 70, "holds": true}, …},
     "audits": [{"section": "http", "holds": true, "unreconciled_fen": 0}, …],
     "holds": bool}

It is written after every section, so that figures survive a later section that fails; `--resume` measures what is
missing. Fails: exit status 1 where an audit or a ratio does not hold.
"""
