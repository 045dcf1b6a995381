"""The runner: starts, supervises and stops all parts of one installation on this machine.

What lives here, in the order of a start: `config` (how large a stack is), `known_clusters` (what stood here at earlier
starts), `gateway_ports`, `stable_ports` and `memcached_socket` (where parts listen), `backing_services` (Postgres
servers and memcached), `topology_file`,
`day_table_service`, `process_factory` and `service` (our own processes), `part` (what all of these can do),
`supervisor`, `rolling_restart`, `answers` (who hangs), `supervisor_log` and `crashes` (who has ended how often),
`stack` (all of it as one `async with`).
`play` has the users to play with. `clock_move` moves the clock of a sandbox, with `clock_bounds` (how far) and
`clock_due` (what is still on its way). `running` is the file of what runs now; `status` and `attach` are what commands
ask of it.

May import: `installation` and the floors below it. Not `rotation`, `moving`, `backup` and `inspection`: they operate on
any installation; the command that wants both (`cli.commands.up`) combines them.

Promises, each with the test that keeps it:
- One stack for a data folder at a time, by a lock that the kernel releases
  (`test_a_second_stack_on_one_data_folder_…`).
- No process outlives the stack by more than three seconds, also after `kill -9` of the stack
  (`test_nothing_outlives_a_killed_stack`: setpriv --pdeathsig); an interrupted start leaves none
  (`test_ctrl_c_during_…`).
- A restart finds all data (`test_a_stack_comes_up_…`), and each part but the gateways listens where it did before
  unless another process took its port (`test_parts_keep_their_ports_…`). Gateways listen where --port says.
- A part that ends is started again at its address, and the restart is logged (`test_a_killed_part_comes_back_…`); a
  full disk does not end that (`test_supervision_outlives_…`). A part that hangs is reported
  (`test_a_part_that_does_not_answer_…`).
- In a restart that was asked for no request of a few dozen people fails (tests/faults/test_rolling_restart.py); a
  gateway's listening sockets stay open here meanwhile.
- A cluster or a `secrets.json` that was there at an earlier start and is missing is refused, never made anew
  (`test_a_missing_cluster_…`, `test_lost_secrets_…`), also while the stack runs.
- memcached, which asks for no password, listens on a private socket only
  (`test_a_long_path_puts_the_socket_into_a_short_private_folder`).
- Only folders that it makes get a mode, and nobody else can read them (`test_what_we_make_is_closed_…`).
- Users to play with exist only where nobody but this machine reaches the gateways (tests/unit/local/test_play.py).
- Only a sandbox's clock moves, only ahead, and not at all if a database is away (tests/faults/test_sandbox.py); no
  process of a real installation gets a sandbox's clock from the environment (`test_no_process_inherits_a_clock_…`).
- Every wait for a part has a deadline, except the supervisor's wait for a part to end.

Fails by `Refused` (the operator must change something) or `Unavailable` (a part did not start), with a sentence that
says what to do; `Stack.__aenter__` then stops whatever it had started. What was there before the start is never
removed.
"""
