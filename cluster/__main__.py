"""`python -m cluster` is the `hongbao` command, for where its script is not on PATH."""

from cluster.cli import run

run()
