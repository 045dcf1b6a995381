"""The address of a place in an object store: `s3://bucket/prefix`."""

import re
from dataclasses import dataclass
from typing import Final

from errors import Refused

SCHEME: Final = "s3://"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9!_.*'()=+-]+")


@dataclass(frozen=True)
class Address:
    """A bucket, and the prefix of all names in it without slashes at its ends ("": the whole bucket)."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        """Return it as operators write it."""
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def below(self, name: str) -> "Address":
        """Return the place `name` below this one."""
        return Address(self.bucket, f"{self.prefix}/{name}".strip("/"))


def is_address(text: object) -> bool:
    """Say whether a place is in an object store, rather than a folder."""
    return str(text).startswith(SCHEME)


def parse(text: str) -> Address:
    """Return what `s3://bucket/prefix` names; raises Refused `bucket_address`."""
    bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
    prefix = prefix.strip("/")
    segments = prefix.split("/") if prefix else []
    sound = all(_SEGMENT.fullmatch(one) and one not in (".", "..") for one in segments)
    if not is_address(text) or not _BUCKET.fullmatch(bucket) or not sound:
        # A user may have written credentials into it: the text is not repeated.
        raise Refused(
            "bucket_address",
            "a place in an object store is written s3://bucket/prefix, with letters, digits and !_.*'()=+- between the "
            "slashes; credentials and endpoint are given apart (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL …)",
        )
    return Address(bucket, prefix)
