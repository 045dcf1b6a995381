"""The `hongbao` command (top floor): a table of subcommands, each one module.

What lives here: `table` (name, module and summary of every command; start here to find one), `group` (how commands are
found, imported and fail), `commands/` (one module each: options, the call, how the result is printed), `archives` (how
commands open the archive). What commands have in common in printing is `runtime.reporting`.

May import: every room. Nothing imports it but tests. A command holds no logic of its own: what it does to an
installation stands in `rotation`, `moving`, `backup`, `inspection`, `audit` or `local`, and measuring in `loadtest`.

Promises, each with the test that keeps it:
- `--help` imports no command (`test_help_imports_no_command`); each command's own help works
  (`test_every_command_of_the_map_exists`).
- Exit status 0 means that what was asked holds; 1 that it does not, or an error on purpose, which is one line on
  standard error without a traceback (`test_a_deliberate_error_is_one_line`); 130 after Ctrl-C (`test_ctrl_c_is_told`).
- Every report has `--json`: one object on standard output. A reader that closes the pipe changes neither output so far
  nor exit status (`test_a_reader_who_leaves_changes_nothing`).
- An identifier in a table is never cut, at any width (`tests/unit/local/test_reporting.py`).
"""
