"""Sends events to a URL as Standard Webhooks says: signed, with the time of the call, repeated until they are accepted.

`endpoint` makes the calls, `signing` signs them, `addresses` keeps them from hosts of the own network. A receiver
verifies `webhook-signature` over the exact body, refuses calls whose `webhook-timestamp` is minutes away, remembers
`webhook-id`, and answers 2xx once it has stored the event; 410 if it wants no more.
"""
