"""What names a place in an object store, and what reaches it."""

from pathlib import Path

import pytest

from errors import Refused
from objectstore import credentials
from objectstore.address import Address, is_address, parse


def test_an_address_is_a_bucket_and_a_prefix() -> None:
    """Slashes at the ends do not matter; the text comes back as it is written."""
    assert parse("s3://some-bucket/a/day=1/") == Address("some-bucket", "a/day=1")
    assert str(parse("s3://some-bucket")) == "s3://some-bucket"
    assert str(parse("s3://some-bucket/a/").below("b")) == "s3://some-bucket/a/b"
    assert is_address("s3://x")
    assert not is_address(Path("/s3"))


@pytest.mark.parametrize(
    "text",
    ["s3://", "s3://UPPER/x", "s3://ab", "s3://key:secret@bucket/x", "s3://bucket/../x", "s3://bucket/a//b", "/x"],
)
def test_what_is_no_address_is_refused_and_not_repeated(text: str) -> None:
    """The sentence says how one is written, and does not show what may hold a secret."""
    with pytest.raises(Refused) as raised:
        parse(text)
    assert raised.value.code == "bucket_address"
    assert "secret@" not in raised.value.detail


def test_credentials_come_from_variables_or_from_files(tmp_path: Path) -> None:
    """A variable has precedence over its file; region and endpoint are those of the standard variables."""
    (tmp_path / "id").write_text("the id\n")
    (tmp_path / "key").write_text("the key\n")
    files = {"AWS_ACCESS_KEY_ID_FILE": str(tmp_path / "id"), "AWS_SECRET_ACCESS_KEY_FILE": str(tmp_path / "key")}
    more = {
        "AWS_DEFAULT_REGION": "eu-1",
        "AWS_ENDPOINT_URL": "https://store.example:9000",
        "AWS_SECRET_ACCESS_KEY": "own",
    }
    assert credentials.settings({**files, **more}) == {
        "access_key_id": "the id", "secret_access_key": "own", "region": "eu-1", "endpoint": "https://store.example:9000",
    }  # fmt: skip
    assert credentials.settings({}) == {"region": "us-east-1"}
    assert credentials.given({**files, "HOME": "/", "AWS_PROFILE": "x"}) == files


@pytest.mark.parametrize(
    "environ",
    [
        {"AWS_ACCESS_KEY_ID": "alone"},
        {"AWS_SECRET_ACCESS_KEY_FILE": "/no/such/file"},
        {"AWS_ENDPOINT_URL": "http://store.example"},
        {"AWS_ENDPOINT_URL": "store.example"},
        {"AWS_ENDPOINT_URL": "https://"},
        {"AWS_ENDPOINT_URL": "https://127.0.0.1:99999"},
        {"AWS_ENDPOINT_URL": "http://[::1"},
        {"AWS_ACCESS_KEY_ID": "id\nmore", "AWS_SECRET_ACCESS_KEY": "secret"},
        {"AWS_REGION": "x y"},
    ],
)
def test_half_a_credential_or_a_plain_way_is_refused(environ: dict[str, str]) -> None:
    """An ID without a secret, a file that is not there, and http to another machine, unless it is said to be wanted."""
    with pytest.raises(Refused) as raised:
        credentials.settings(environ)
    assert raised.value.code == "bucket_credentials"


def test_plain_http_can_be_wanted() -> None:
    """On loopback always, elsewhere where AWS_ALLOW_HTTP says so."""
    for environ in (
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"},
        {"AWS_ENDPOINT_URL": "http://[::1]:9000"},
        {"AWS_ENDPOINT_URL": "http://store.example:9000", "AWS_ALLOW_HTTP": "true"},
    ):
        assert credentials.settings(environ)["endpoint"] == environ["AWS_ENDPOINT_URL"]
