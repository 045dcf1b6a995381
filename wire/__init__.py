"""Calls between processes (floor 3): messages, the framed link, the wallet's client.

A link is one long-lived WebSocket between two processes, `link` at the calling end, `server` at the answering end. It
carries msgpack frames of many requests each, sent once per turn of the event loop: cheaper than an HTTP exchange per
request. `messages` are the operations and their arguments, `framing` what both ends agree on, `limits` every bound,
`orders` order numbers and account names, `wallet` the client of the wallet service. `keys` says who may call whom,
`handshake` how both ends prove it; `ask` is one HTTP request under the same proof.

May import: `sharding`, `runtime`, `errors`.

Promise: nothing is sent to an end that has not proven to be the server that is called, and nothing is taken from one
that has not proven its key (tests/integration/wire/test_handshake.py). What follows the proof is neither encrypted nor
signed (docs/security.md). A call ends exactly once: with its reply; with the error that the answering end raised; with
an error of the link from before it was sent (`peer_down`, `busy`, `malformed_request`: it had no effect); or with
`outcome_unknown` at its deadline or when the connection is lost. Unknown is also reported for calls that were still
queued when the connection was lost, because the link does not know how much of a frame the other end received. A link
never repeats a call.
"""
