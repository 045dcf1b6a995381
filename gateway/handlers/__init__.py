"""The handlers: one method for each operation of `gateway.routes`, one class for each part of the API.

What lives here: `envelopes`, `wallets` (`/v1/me`), `ops` (probes, metrics, documents), and `outcomes`, which makes an
answer of a SET's reply to open or grab. May import everything of the gateway below `dispatch`, `wire` for calls, and
`switches`.

Promise: a handler finds the user first, then refuses what is not well-formed, then calls another part (test_http.py:
nothing is called for a bad token, ID or body). Between requests it keeps only the target in the request's resource.
How it fails: it raises a HongbaoError, which `gateway.dispatch` turns into a problem.
"""
