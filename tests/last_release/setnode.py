"""`python -m tests.last_release.setnode`."""

from tests.last_release import become

become("setnode")
