"""The handlers: one method for each operation of `gateway.routes`, one class for each part of the API.

What lives here: `envelopes`, `wallets` (`/v1/me`), `ops` (probes, metrics, documents), and `outcomes`, which makes an
answer of a SET's reply to open or grab. May import everything of the gateway below `dispatch`, and `wire` for calls.

Promise: a handler finds the user first, then refuses what is not well-formed, then calls another part (test_http.py:
nothing is called for a bad token, ID or body). It keeps no state between requests but what its resource remembers. How
it fails: it raises a HongbaoError, of which `gateway.dispatch` makes a problem.
"""
