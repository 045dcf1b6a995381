"""Creates envelopes: the money first, then the header.

`request` reads a create off the link; `coalescer` takes the creates of one turn of the event loop through the usual
steps together; `creator` knows the steps and every other case.

May import: `setnode.days`, `setnode.commit`, `setnode.actors` (`ReplyTo`), `setnode.views`, `setnode.passwords`,
`setnode.limits`, `wire`, `envelope`, `runtime`.

Promise: the money is in escrow before the header is written, and a reply that names an envelope is sent after its
header is durable. A caller that disconnects cancels nothing; a create that takes another course does not hold up the
others (tests/integration/setnode/test_creates.py, test_create_coalescer.py). Fails by `Refused` or `Unavailable` to the
one caller; with money in escrow the error says `outcome_known=False`, and a repeat completes the create.
"""
