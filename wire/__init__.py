"""What processes say to each other (floor 3): messages, the framed link, the wallet's client.

A link is one long-lived WebSocket between two processes. It carries msgpack frames of many requests each, flushed
once per turn of the event loop, so that a request costs microseconds and not an HTTP exchange.

May import: `sharding`, `envelope`, `runtime`. Promise: a call ends in exactly one of three ways — a reply, a
known refusal (it was not sent), or "outcome unknown" (it was sent, the answer did not come back). It never guesses.
"""
