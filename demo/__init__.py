"""The demo: groups play with real envelopes over HTTP, and every fen must be accounted for.

`client` speaks HTTP to the gateway as any client does, `scenes` are what the groups do, `story` plays the scenes in
order, waits until all payouts are done and audits, `show` prints the result. `cli.commands.demo` finds or starts the
stack and gives this room what it needs: an address, tokens, a way to deposit, the audit.

May import: `audit` (its report), `envelope` and `errors`; nothing of a server's inside.

Promise: each scene compares the amounts that its clients received with what the gateway shows of the envelope, and the
audit at the end checks all databases; only both together give exit status 0. Fails by `InvariantBroken`
(`demo_adds_up`) as soon as a scene does not add up, by `Unavailable` (`demo_failed`) on an unexpected answer. `./run
demo` on a fresh clone is the test of this room; the suite has none.
"""
