"""Load tests and benchmarks: clients of a whole system, one SET measured from inside, and the plan made from it.

    bench/        ./run bench: every figure of docs/performance.md; it knows the inside of a SET
    baselines/    the other ways to hand out shares that the benchmark compares with (not in the wheel)
    plan/         ./run plan: from the figures to numbers of SETs, servers and disks; group_commit is its model
    load/ users/  ./run loadtest: simulated people (locust) living by a row of profiles
    openloop/     a client that sends at a given rate whatever comes back; wrk/ the one that measures saturation
    drill/        ./run rotate drill: a day's whole way out, on a stack of its own

All but `bench` and `drill` speak HTTP to the gateway like any client. `tally` and `histogram` hold what clients saw,
`run_proof` is the end of every run: payouts drained, the audit, and every `opened` found in the claim log.

Promise: a run whose money does not add up fails, however fast it was. The docstring of a benchmark says its question,
its workload and a sketch of the cost.
"""
