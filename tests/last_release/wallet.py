"""`python -m tests.last_release.wallet`."""

from tests.last_release import become

become("wallet")
