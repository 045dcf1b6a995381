"""The front door (floor 5): HTTP and JSON for users outside, one framed link to each part inside.

What lives here: routes and their OpenAPI document, tokens, the bounds of what a client may send, the table of problems,
finding the SET and server of an envelope, and the page for people (`site`), which is looked up after all routes. May
import: `wire`, `switches`, `sharding`, `envelope`, `runtime`, `errors`; never `setnode`, `wallet` or `audit`
(import-linter).

The path of a request, file by file; each step is called by the one before it:

    0  acceptor.py            new connections: bare sockets until a request on them may begin (newcomers.py)
    1  connection.py          one client's connection (`connection_factory` makes them): parsed requests in, bytes out,
                              in order; `connection_bounds` ends connections that are too many or too slow, `unsent`
                              those whose clients ask for much and read nothing
         admission/             line.py: where requests wait to begin, and who is refused instead (`refusals`)
    2  dispatch.py            gives the request its ID, calls its operation; an error becomes a problem (`problems`);
                              what is our fault is logged (`failure_log`; `access_log` logs all, where it is asked for)
    3  resources.py           the path: its operations (`routes`) and its envelope, remembered by path; what is no route
                              may be a file of the page (`site`)
    4  handlers/envelopes.py  one method per operation, which calls in turn
         identity/              rates.py: whether they ask too often; tokens.py: the user; share_tokens.py: whether they
                                have the envelope's share token
         parsing/               calendar.py: the day in the ID; parameters.py: bodies; terms.py: what a create asks for
    5  sets/calls.py          the call to the envelope's server (routing.py, servers.py), then `wire.link`
    6  handlers/outcomes.py   the reply as an answer (`http.answer`), written by step 1

A stream (`handlers/live.py`) goes on after step 4: `live/` takes the connection over from step 1.

Where pages of other origins may call, `cross_origin` has connections whose answers say so (`http.origins`).

`service.py` wires these together. To change a bound see `limits`, an error's text or status `problems`, a metric
`request_metrics`.

Authority: none over money. A gateway decides who a user is and whether a request is well-formed; everything about an
envelope is decided by its SET. It holds the token, share and slot keys, and the gateways' link key: an intruder in a
gateway can act as any user, and can neither deposit nor pay (docs/security.md; wallet/test_rights.py). State: caches,
counters and connections; any number of gateways may run, and each may be killed at any time.

Promise, each with the tests that hold it: a request is answered once, with a documented status (test_http.py,
test_fuzz.py); an answer that is not 2xx is problem+json with a stable code (test_problems.py); a SET receives no call
for a bad token, ID or body (test_http.py); a client that hangs up cancels no call that was sent (test_links.py); the
same create is the same key, slot and fingerprint in every gateway (test_what_a_create_carries). How it fails: a part
that is away is 503 with Retry-After; an outcome that is unknown is 504 with the advice to repeat, which is safe because
every call is idempotent. Requests in flight are bounded, and so are the bytes of answers that clients do not read:
above UNSENT_BYTES their connections end, first those of the network that holds most (test_unsent.py). When more come
than can be served, who is refused hears it at once and at little cost, and the others are served in time
(test_admission.py, docs/overload.md).
"""
