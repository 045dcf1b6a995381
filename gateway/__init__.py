"""The front door (floor 5): HTTP and JSON for users outside, one framed link per part inside.

What lives here: the routes and their OpenAPI document, tokens, the bounds of what a client may send, the table of
problems, and finding the SET and server of an envelope. May import: `wire`, `sharding`, `envelope`, `runtime`;
never `setnode`, `wallet` or `audit`. Keeps no state that matters: any number of gateways may run, each may be killed.

Promise: whatever a client sends is answered once, with a documented status; every answer that is not 2xx is
problem+json with a stable code from one table (`gateway.problems`); nothing is sent to a SET that is not well-formed;
a client that hangs up cancels nothing. How it fails: a part that is away is 503 with Retry-After, an outcome nobody
knows is 504 and says "repeat it": every call is idempotent.

The way of an open: `connection` → `front` (one HTTP request) → `routes` → `envelopes` (the handler) → `sets` →
`wire.link`. `http` is what a request and an answer are, `reading` what may stand in one, `identity` who sent it.
"""
