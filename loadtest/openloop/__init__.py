"""An open-loop generator: requests leave at their intended times, whether or not earlier ones were answered.

A closed loop (wrk, a simulated user who waits for the answer) sends less while the server is slow, and so leaves out
of its figures what was slow: coordinated omission. Here times come from a `schedule` made beforehand, and a latency is
the time from when a request was due until its answer is read, waiting for a free connection included.

`schedule` makes arrivals; `connection` speaks just enough HTTP/1.1 for our own gateway; `generator` brings both
together; `opens` makes envelopes and the requests for their shares; `job` runs a generator in a process of its own
(`python -m loadtest.openloop`), so that the caller's own work does not delay it. Fails as `errors.Unavailable`
where the gateway cannot be reached at all; a lost connection during a run is a failure in the tally.
"""
