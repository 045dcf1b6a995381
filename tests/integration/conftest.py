"""What several modules share for the whole session.

A fixture that a module imports is the module's own: pytest makes one for each, and keeps all of them to the end. Those
that are to be one for all stand in a conftest.
"""

from tests.integration.archive.fixtures import exported
from tests.integration.gateway.fixtures import stack
from tests.integration.objects.fixtures import s3

__all__ = ["exported", "s3", "stack"]
