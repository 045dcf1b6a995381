"""The subcommands of `hongbao`, one module each; `cluster.cli` lists them."""
