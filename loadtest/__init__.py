"""Load: benchmarks, the rivals that they compare with, and simulated users.

`engine` is one SET from inside, with real Postgres and memcached; `rivals` are the other ways to hand out shares;
everything else here speaks HTTP to the gateway like any client: `load` lets the people of `users` (locust) live by a
row of `profiles`, `openloop` sends at a rate whatever comes back. `tally` and `histogram` are what clients saw, `proof`
is how every run ends. A benchmark says its question, its workload and a sketch of the cost in its docstring, and ends
with a check of the money: a fast wrong answer is a failure.
"""
