"""The doctor (floor 8): what is installed, what runs, what will soon fail; each with one sentence of what to do.

What lives here: `finding` (what a check says), `place` (what checks look at, read once), `examination` (runs all
checks, each with a bound), and the checks, by what they look at: `programs` and `clusters` (what is installed), `files`
(readable by whom), `certificates`, `archives`, `disk`, `open_files` and `clock` (the machine), `ports`, `parts` (what
runs), `databases`, `days`, `backup_log`, `jobs`, `closed`, `events`, `payouts` and `forgetting` (what waits for
somebody). `limits` has every bound and threshold that is not another room's.

May import: floors below. Not `ops`, which watches the same installation second by second and keeps what it saw.

Authority: none. Nothing is written, started, stopped or fetched (`test_nothing_is_written_and_nothing_is_fetched`), and
a check has no threshold of its own where the room that acts on it has one.

Promises, each with the test that keeps it:
- An examination ends within PLACE_S + CHECK_S, also on a dead disk or beside a frozen server: a check that takes longer
  is reported as that and left behind (`test_a_check_that_hangs_is_told_and_left_behind`).
- A check that fails is a finding, never a silent pass (`test_a_check_that_fails_is_a_finding`).
- It works whether or not anything runs or is installed (`test_a_folder_with_nothing_in_it_is_well`, and on a real stack
  tests/integration/local/test_status.py).

How it fails: `place.look` raises Refused `no_server_account`; all else is a finding.
"""
