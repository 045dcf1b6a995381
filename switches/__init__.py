"""Switches: what operators have closed for a while, so that the rest goes on (floor 3).

What lives here: `switch` (the form of one, and what it may close), `decisions` (how lists from several places become
one), `file` (where all of them stand), `switchboard` (what a process asks). May import: `sharding`, `runtime`,
`errors`.

Authority: for a process, the file beside the topology, into which its host merges what is published (`published`); the
command `switch` and the operator's view alone change switches. Promises, held by tests/unit/switches and
tests/integration/gateway/test_switches.py: each process goes by a change of the file within a second; a switch ends by
itself at its time; there is none for refunds or the audit; a file that cannot be read closes and opens nothing, what
was closed before stays so until its time. How it fails: Refused, with a sentence that names the field; who asks for
what is closed gets Unavailable `degraded`.
"""
