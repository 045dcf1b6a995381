"""Load: benchmarks and simulated users.

`engine` measures one SET from inside, with real Postgres and memcached; everything else here speaks HTTP to the
gateway like any client. A benchmark says its question, its workload and a sketch of the cost in its docstring, and
ends with a check of the money: a fast wrong answer is a failure.
"""
