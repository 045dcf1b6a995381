"""Events (floor 7): tells programs what was committed, at least once, and what happened to one envelope in order.

What lives here, on the way of an event: setnodes write an entry of `event_log` in the transaction of the facts;
`log_reader` reads entries from a sink's `cursor` on; `facts` makes the events of an entry (`wire.cloud_events` has
their types, `event` is one on its way); `delivery` runs one sink in one SET: `lanes` send (`health`: how the receiver
does), `retries` keeps events that are retried apart, `progress` says how far the cursor may move. Receivers are
`webhook/` and `jetstream`. `register` holds what an operator has decided about sinks. `set_worker` takes a SET
(`set_session` holds its lock), trims its log and shows `gauges`; `service` wires one process. `operators` and `tail`
are what commands call; `wake` has that process ask a receiver at once.

May import: `installation` and below. It reads `event_log`, `event_sink`, `event_cursor` and `event_retry` as the role
`hongbao_events`, which sees neither claims nor headers, and can change neither.

Authority: none over money. What is durable: an event is in the log as soon as its claim is (one transaction); a cursor
moves only over what receivers have accepted, do not want, or `event_retry` holds.

Promises, each with its test in tests/integration/events:
- Every event arrives at least once, those of an envelope in order, also when the process is killed between two of them
  (test_killed_while_it_delivers).
- No event is told before its commit (test_nothing_is_told_before_its_commit).
- A sink that fails stops only itself (test_a_failing_sink_stops_only_itself), and a bad event only its envelope
  (test_one_refused_event_does_not_stop_the_others, test_a_refused_event_of_a_hot_envelope_does_not_stop_the_others).
- What waits behind refused events stops nothing else, up to a bound; at it the sink is shown as failing, and goes on
  once there is room (test_bounds). So is a sink whose delivery ends by a fault
  (test_a_fault_in_a_delivery_is_shown_at_its_sink).
- Whoever wakes what waits changes neither the order nor when an event is given up
  (test_what_waits_behind_a_refused_event_does_not_pass_it, test_a_wake_takes_nothing_of_the_three_days).
- While no sink is there, commits write nothing more than before (test_without_a_sink_nothing_is_written).

How it fails: a receiver that is away leaves entries in the log, for seven days; a SET that is away is tried again,
while the others go on; without this process nothing is told and everything else works.
"""
