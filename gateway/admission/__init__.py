"""Step 1b of a request: whether it begins. What waits too long is refused before it costs anything (docs/overload.md).

A system that is asked for more than it can do must choose: if it begins everything, everything is late, and people
leave before their answer comes. So requests stand in one line (`line`), which knows how long each has waited since it
could be read. The line is kept short: a request that has waited for `LINE_S` is refused, and while requests wait
longer than `WAIT_S` in the mean, a threshold (`threshold`) refuses those that come last in the order of `priority`
as they arrive, as many as the system cannot do.

A refusal (`refusal`) is 503 `busy` with `Retry-After`. It costs the gateway a parsed head and one write: no token is
verified, no body is read, no SET is asked.
"""
