"""An open-loop generator: requests leave at their intended times, whether or not earlier ones were answered.

A closed loop (wrk, a simulated user who waits) sends less while the server is slow, and so leaves out of its figures
just what was slow: coordinated omission. Here times come from a `schedule` made beforehand, and a latency is the time
from when a request was to be sent until its answer is read, waiting for a free connection included.

`schedule` makes arrivals; `connection` speaks just enough HTTP/1.1 for our own gateway; `generator` brings both
together; `opens` makes envelopes and the requests for their shares; `job` runs a generator in a process of its own
(`python -m loadtest.openloop`), so that nothing else of the caller delays it. Fails as `envelope.errors.Unavailable`
where the gateway cannot be reached at all; a lost connection during a run is a failure in the tally.
"""
