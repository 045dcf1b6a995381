"""The demo: real groups play with real envelopes over HTTP, and everything must add up to the fen.

`client` speaks to the gateway as any client would, `scenes` are what happens, `story` plays them in order and ends
with payouts drained and an audit, `show` is how a person sees it.
"""
