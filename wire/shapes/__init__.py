"""The shape of every message of a link: the fields of each operation's arguments and reply, by place.

`table` is what crosses releases, so it only grows (`wire.messages` has the rule). `table.described` gives it as plain
values; those of the release before stand in tests/integration/wire/messages_v2.json. Tests compare the two, and hold
the table against what processes really send (tests/integration/wire/test_messages.py).

Bounds of values are the readers' own (`setnode.dispatch`, `setnode.creation.request`, `wallet.requests`).
"""
