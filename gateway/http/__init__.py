"""HTTP as the handlers see it: a request and its body in, an answer out.

What lives here: `request`, `body`, `answer`, and `aiohttp_private`, the list of aiohttp's private names that the
gateway uses. May import: `errors`, `gateway.limits`, aiohttp, msgspec; nothing of users, envelopes or routes.

Promise: a body is read to BODY_BYTES and for BODY_S at most, never inflated, and refused if it names a field twice
(tests/integration/gateway/test_http.py, tests/unit/gateway/test_terms.py); the repr of a request or an answer shows no
header, target or body (test_tokens.py), so that they may be logged. How it fails: as `Refused` or `Unavailable` with a
code of `gateway.problems`; ConnectionError once the client has gone; at import, if aiohttp is not the version whose
private names were read.
"""
