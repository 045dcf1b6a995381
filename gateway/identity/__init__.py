"""Who sends a request, and which envelopes they may see: bearer tokens, share tokens, user IDs.

What lives here: `tokens` (bearer tokens), `token_keys` (what they may be signed with), `token_faults` (what is wrong
with one; these three alone know PyJWT), `share_tokens`, `users` (the form of user IDs), `buckets` (token buckets by
key), `auth_failures` (how many rejected tokens one address may send), `rates` (how often a user and an address may
ask), `proxies` (whose `X-Forwarded-For` is believed).
May import: `envelope.limits`, `errors`, `runtime`, `gateway.limits`.

Authority: whoever has the token key can be any user; whoever has the share key can see any envelope and open those that
name no receivers. All gateways of an installation share both. A client's address is that of its connection; the header
X-Forwarded-For counts only on connections of trusted proxies, and of it only what they have added (test_bounds.py).

Promise: only a token signed with HS256 under our key, with `sub` and `exp`, names a user; a share token is compared in
constant time; a cached token is accepted until it expires, however many others from its address are rejected
(tests/unit/gateway/test_tokens.py, test_share_tokens.py). There is no revocation: a token is good until `exp`. State:
caches and counters only; rates are counted by each gateway for itself (test_rates.py). How it fails: `Refused` with a
401 code; Unavailable `too_many_rejected_tokens`, `too_many_requests`, `too_soon`, 429.
"""
