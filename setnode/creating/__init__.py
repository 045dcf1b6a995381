"""Brings envelopes to life: the money first, then the header.

`request` reads what a create asks for, `crowds` takes those of a moment the usual way together, and `creator` knows the
steps of that way and everything that can come in between.

Promise: the money is in escrow before the header is written, and who is told of an envelope has it in Postgres. A
caller that hangs up cancels nothing; one unusual create holds up no other.
"""
