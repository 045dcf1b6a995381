"""Live streams (server-sent events): a client that watches an envelope hears of each change soon after its commit.

What lives here: `hub` knows which client watches which envelope, asks the envelope's server to tell of it, once for all
who watch it here, and hands each frame out; `pace` says how much of the time that may take; `watcher` is one client's
stream; `events` writes them as bytes. May import: `gateway.sets`, `gateway.http`, `gateway.limits`, `wire`, `runtime`,
`errors`.

A frame is made in the setnode after the commit, encoded once there, and written here as the same bytes to everybody. A
client that does not read gets no backlog: it misses frames, and receives the last one once it reads again. Frames have
the claims that are new, the 20 newest at most; their `seq` tells a client whether it has missed some, and the detail
has all.

Promise: nothing is told that the detail would not show this user (the setnode decides, for each user that begins to
watch); nothing before its commit; a server that is replaced is asked again, and who watches hears what has changed
meanwhile (tests/integration/gateway/test_live.py, tests/faults/test_live.py). How it fails: a stream ends, says when to
come back, and the client connects again; nothing depends on it. Bounds: LIVE_STREAMS in a process, LIVE_STREAMS_OF_USER
of one user, LIVE_ENVELOPES of one stream.
"""
