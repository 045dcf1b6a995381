"""`python -m cli` is the `hongbao` command, for where its script is not on PATH."""

from cli.table import run

run()
