"""`python -m tests.last_release.gateway`."""

from tests.last_release import become

become("gateway")
