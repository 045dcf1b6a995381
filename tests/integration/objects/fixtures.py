"""A real S3 server, buckets in it, and a proxy before it for what it does not do on demand.

A test module imports `bucket` and `front` and names them in `__all__`; `s3` stands in the conftest, for the session.
"""

import itertools
from collections.abc import Iterator

import pytest

from loadtest.s3_process import ENVIRONMENT, make_bucket, s3_server
from objectstore.bucket import Bucket, bucket_of
from tests.integration.objects.faulty_front import FaultyFront, faulty_front

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of an S3 server."""
    with s3_server(tmp_path_factory.mktemp("s3") / "s3.log") as endpoint:
        yield endpoint


@pytest.fixture
def front(s3: str) -> Iterator[FaultyFront]:
    """A way to the server on which a test breaks things."""
    with faulty_front(s3) as one:
        yield one


@pytest.fixture
def bucket(s3: str, front: FaultyFront, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A place in a bucket of the test's own, by way of the front."""
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": front.endpoint}.items():
        monkeypatch.setenv(name, value)
    named = f"bucket-{next(_numbers)}"
    make_bucket(s3, named)
    return bucket_of(f"s3://{named}/hongbao")
