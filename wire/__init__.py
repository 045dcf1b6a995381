"""Calls between processes (floor 3): messages, the framed link, the wallet's client.

A link is one long-lived WebSocket between two processes, `link` at the calling end, `server` at the answering end. It
carries msgpack frames of many requests each, sent once per turn of the event loop: cheaper than an HTTP exchange per
request. `messages` are the operations and their arguments, `framing` what both ends agree on, `limits` every bound,
`orders` order numbers and account names, `wallet` the client of the wallet service. `load` is what the answering end
says of itself unasked, `heard` what the calling end makes of it. `keys` says who may call whom, `handshake` how both
ends prove it and agree on one of the `versions`; `ask` is one HTTP request under the same proof, `connector` makes the
connections of a link. `traced` is what a traced call carries, and what ends its span. `shapes` is the table of all
messages, which only grows. `cloud_events` is the shape of the events that receivers outside get.

May import: `sharding`, `runtime`, `errors`.

Promise: nothing is sent to an end that has not proven to be the server that is called, and nothing is taken from one
that has not proven its key (tests/integration/wire/test_handshake.py). What follows the proof is encrypted and signed
where both ends have certificates (`runtime.tls`, tests/integration/wire/test_tls.py), otherwise neither. An end of
the release before is spoken to in its version, and nobody in between can bring that about for one that speaks ours
(tests/integration/wire/test_versions.py). A call ends exactly once: with its reply; with the error that the answering
end raised; with an error of the link from before it was sent (`peer_down`, `wallet_unavailable`, `busy`,
`malformed_request`: it had no effect); or with `outcome_unknown` at its deadline or when the connection is lost after
its frame was begun. A call that was still queued then was not sent. A link never repeats a call.

An error code belongs to one link. What a process says of its own peers has another code (`wallet_unavailable`), and
"not sent" is a type of its own, `link.NotSent`, that no reply is decoded into. A server that is frozen or cut off is
given up within SILENT_S; one that only takes long to answer is not (tests/integration/wire/test_frozen.py).

How it fails: reader, writer and the search for overdue calls run in one task group, so a link whose writer has failed
is closed and made anew. A request whose handler raises, or whose reply cannot be encoded, fails alone with
`internal_error` (tests/integration/wire/test_link.py). Replies to a caller that does not read are bounded in bytes, and
so are calls to a server that does not read (tests/integration/wire/test_frozen.py).
"""
