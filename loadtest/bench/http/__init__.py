"""Section (b): opens over HTTP, with everything on this machine.

Question: what do gateway, link, setnode, group commit and Postgres carry together, while the wallet pays out and wrk
sends from the same cores; compared with the same server in front of a lock, or of nothing? Workloads, over 256
keep-alive connections, every request a win: `many`, envelopes of 20 shares opened round robin by as many users; `hot`,
what the whole system is for, one envelope of 10,000 shares after the other; creates, each with a key of its own.
Contenders: this project; the pessimistic lock behind our own connection loop, with the pool that a sweep found best for
each workload; a handler of `aiohttp.web.Application` that answers a constant; the same constant through our own loop.
Sketch: about 25 µs of HTTP, 30 of our Python, 30 of Postgres and 30 of wallet an open; the constant is HTTP alone. Ends
with the audit of our stack and the baseline's own money check.

`http_bench` is what runs, `turns` what each contender does in its turn, `section` puts them together.
"""

from loadtest.bench.http.section import NAMES, measure, rows

__all__ = ["NAMES", "measure", "rows"]
