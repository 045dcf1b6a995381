"""One place in a bucket: what is put is read back, and what the store refuses is a sentence with a code."""

import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from errors import HongbaoError, Refused, Unavailable
from objectstore import bucket as bucket_module
from objectstore.bucket import Bucket, bucket_of
from objectstore.limits import PART_BYTES
from tests.integration.objects.faulty_front import Answer, Asked, FaultyFront
from tests.integration.objects.fixtures import bucket, front

__all__ = ["bucket", "front"]


def code(work: Any) -> str:
    with pytest.raises(HongbaoError) as raised:
        work()
    assert len(raised.value.detail) > 20
    return raised.value.code


def test_what_is_put_is_read_back(bucket: Bucket, tmp_path: Path) -> None:
    """Whole, by range, as a stream and in a listing; and after a delete it is missing."""
    content = os.urandom(3_000_000)
    (tmp_path / "file").write_bytes(content)
    bucket.upload("a/file", tmp_path / "file")
    assert bucket.read("a/file", 1 << 30)[0] == b"".join(bucket.stream("a/file")) == content
    assert bucket.part("a/file", 1_000, 2_000_000) == content[1_000:2_000_000]
    assert bucket.part("a/file", 2_999_990, 9_000_000) == content[-10:]
    assert bucket.size("a/file") == len(content)
    assert [(one.name, one.size) for one in bucket.listed("a")] == [("a/file", len(content))]
    assert [one.name for one in (bucket / "a").listed()] == ["file"]
    bucket.delete(["a/file", "a/never there"])
    assert code(lambda: bucket.read("a/file", 10)) == "object_missing"
    assert list(bucket.listed()) == []


def test_an_empty_object_is_read(bucket: Bucket) -> None:
    """Of which a store gives no range."""
    bucket.create("empty", b"")
    assert list(bucket.stream("empty")) == []
    assert bucket.read("empty", 10)[0] == b""


def test_nothing_is_replaced_that_was_not_read(bucket: Bucket) -> None:
    """A second create is refused; a replacement goes in only over the object that was read."""
    bucket.create("one", b"first")
    assert code(lambda: bucket.create("one", b"second")) == "object_exists"
    content, etag = bucket.read("one", 100)
    assert content == b"first"
    bucket.replace("one", b"third", etag)
    assert code(lambda: bucket.replace("one", b"fourth", etag)) == "object_changed"
    assert bucket.read("one", 100)[0] == b"third"
    assert code(lambda: bucket.read("one", 4)) == "object_changed"


def test_a_large_file_goes_up_in_parts_and_half_of_it_is_not_there(
    bucket: Bucket, front: FaultyFront, tmp_path: Path
) -> None:
    """While its last part is missing nothing has its name, a failed upload is taken back, a whole one is one object."""
    content = os.urandom(PART_BYTES + 1_000_000)
    (tmp_path / "file").write_bytes(content)
    first_is_up = threading.Event()

    def refuse_the_second(asked: Asked) -> Answer | None:
        if asked.query.get("partNumber") == "1":
            first_is_up.set()
        if asked.query.get("partNumber") != "2":
            return None
        assert first_is_up.wait(30)
        return Answer(403, "AccessDenied")

    front.breaks = refuse_the_second
    assert code(lambda: bucket.upload("large", tmp_path / "file")) == "bucket_denied"
    assert [one for one in front.seen if one.method == "PUT" and one.query.get("partNumber") == "1"]
    assert [one for one in front.seen if one.method == "DELETE" and "uploadId" in one.query], "parts are removed"
    assert list(bucket.listed()) == []
    assert code(lambda: bucket.size("large")) == "object_missing"
    front.heal()
    bucket.upload("large", tmp_path / "file")
    front.seen.clear()
    assert b"".join(bucket.stream("large")) == content
    assert [one.range for one in front.seen if one.method == "GET"] == [
        f"bytes=0-{PART_BYTES - 1}", f"bytes={PART_BYTES}-{2 * PART_BYTES - 1}",
    ], "a request may last so long, and an object longer"  # fmt: skip
    coming = bucket.stream("large")
    next(coming)
    bucket.upload("large", tmp_path / "file")
    bucket.delete(["large"])
    bucket.create("large", b"x" * (PART_BYTES + 1))
    assert code(lambda: next(coming)) == "object_changed"


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (507, "XMinioStorageFull", "bucket_full"),
        (400, "QuotaExceeded", "bucket_full"),
        (403, "AccessDenied", "bucket_denied"),
        (403, "SignatureDoesNotMatch", "bucket_denied"),
        (404, "NoSuchBucket", "bucket_missing"),
        (301, "PermanentRedirect", "bucket_elsewhere"),
        (400, "AuthorizationHeaderMalformed", "bucket_elsewhere"),
        (501, "NotImplemented", "bucket_unfit"),
        (409, "ConditionalRequestConflict", "object_changed"),
        (503, "SlowDown", "bucket_away"),
    ],
)
def test_a_refused_write_has_a_code(
    bucket: Bucket,
    front: FaultyFront,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    said: str,
    expected: str,
) -> None:
    """Full, denied, no bucket, a conflict or overloaded: the code says which, no secret is shown, nothing is there."""
    monkeypatch.setattr(bucket_module, "RETRIES", 1)
    (tmp_path / "file").write_bytes(b"x")
    front.always("PUT", status, said)
    for work in (lambda: bucket.create("one", b"x"), lambda: bucket.upload("one", tmp_path / "file")):
        with pytest.raises(HongbaoError) as raised:
            work()
        assert raised.value.code == expected
        assert isinstance(raised.value, Unavailable if expected == "bucket_away" else Refused)
        assert "not a secret" not in str(raised.value)
        assert str(bucket).removeprefix("s3://").partition("/")[0] in raised.value.detail
    front.heal()
    assert list(bucket.listed()) == []


def test_a_bucket_that_is_not_there(bucket: Bucket) -> None:
    """Reading, writing and listing all name the bucket."""
    lost = bucket_of("s3://no-such-bucket/hongbao")
    works = (
        lambda: lost.create("a", b""),
        lambda: lost.read("a", 1),
        lambda: list(lost.listed()),
        lambda: lost.size("a"),
    )
    assert [code(work) for work in works[:3]] == ["bucket_missing"] * 3
    assert code(works[3]) in ("bucket_missing", "object_missing"), "HEAD has no body that could tell"


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens: `bucket_away`, after few and short attempts."""
    monkeypatch.setattr(bucket_module, "RETRIES", 1)
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "a"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert code(lambda: bucket_of("s3://some-bucket/x").read("a", 1)) == "bucket_away"


def test_a_listing_comes_in_pages(bucket: Bucket, front: FaultyFront) -> None:
    """A listing that the store cuts after each name is read to its end."""
    for number in range(5):
        bucket.create(f"some/{number}", b"x")

    def cut(asked: Any) -> None:
        if asked.lists:
            asked.query["max-keys"] = "2"

    front.breaks = cut
    front.seen.clear()
    assert [one.name for one in bucket.listed("some")] == [f"some/{number}" for number in range(5)]
    assert len(front.seen) == 3
    assert re.search("continuation-token", str(front.seen[1].query))
