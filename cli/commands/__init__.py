"""The subcommands of `hongbao`, one module each with a `command` in it; `cli.table` lists them."""
