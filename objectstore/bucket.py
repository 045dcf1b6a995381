"""One prefix of one bucket: objects put, read in whole or by range, listed and deleted. Everything blocks."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from errors import Refused, Unavailable
from objectstore import credentials
from objectstore.address import Address, parse
from objectstore.faults import translated
from objectstore.limits import (
    CONNECT_S,
    FIRST_RETRY_MS,
    LAST_RETRY_MS,
    MOST_PARTS,
    NAMES_PER_DELETE,
    PART_BYTES,
    PARTS_AT_ONCE,
    REQUEST_S,
    RETRIES,
    RETRY_S,
)

if TYPE_CHECKING:
    from obstore.store import S3Store


class Held(NamedTuple):
    """An object as the store lists it: its name below our prefix, size in bytes, ETag, and when it was put."""

    name: str
    size: int
    etag: str
    put_at: datetime


class Bucket:
    """Names are relative to the address's prefix. May be used by several threads at once.

    Every method raises the errors of the room's plate.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._made: tuple[object, S3Store] | None = None
        """The client, and the stamp of the credentials' files that it was made of."""

    def __str__(self) -> str:
        """Return the address."""
        return str(self.address)

    def __eq__(self, other: object) -> bool:
        """Say whether both are the same place."""
        return isinstance(other, Bucket) and self.address == other.address

    def __hash__(self) -> int:
        """As `==`."""
        return hash(self.address)

    def __truediv__(self, name: str) -> "Bucket":
        """Return the place `name` below this one."""
        return Bucket(self.address.below(name))

    @property
    def _store(self) -> "S3Store":
        """The client. It is made anew once a file of credentials was: a token ends in hours, a process lives for weeks.

        While such a file is being replaced, and cannot be read for an instant, the client stays what it was.
        """
        # Before the files are read: what is written meanwhile has another one, and is read with the next request.
        stamp = credentials.stamp()
        made = self._made
        if made is not None and made[0] == stamp:
            return made[1]
        try:
            found = credentials.settings()
        except Refused:
            if made is None:
                raise
            return made[1]
        client = self._client(found)
        self._made = stamp, client
        return client

    def _client(self, found: dict[str, str]) -> "S3Store":
        from obstore.store import S3Store  # noqa: PLC0415 - a slow import that only users of a store need

        plain = found.get("endpoint", "").startswith("http://")
        options: Any = {"connect_timeout": f"{CONNECT_S}s", "timeout": f"{REQUEST_S}s", "allow_http": plain}
        backoff: Any = {
            "init_backoff": timedelta(milliseconds=FIRST_RETRY_MS),
            "max_backoff": timedelta(milliseconds=LAST_RETRY_MS),
            "base": 2,
        }
        retry: Any = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S), "backoff": backoff}
        named: Any = found
        prefix = self.address.prefix or None
        return S3Store(self.address.bucket, prefix=prefix, client_options=options, retry_config=retry, **named)

    def create(self, name: str, content: bytes) -> str:
        """Put a new object; returns its ETag, durable then.

        Raises Refused `object_exists` if there is one of that name.
        """
        import obstore  # noqa: PLC0415 - see _store

        with translated(self.address, name, what="write"):
            put = obstore.put(self._store, name, content, mode="create", use_multipart=False)
        return put["e_tag"] or ""

    def replace(self, name: str, content: bytes, etag: str) -> str:
        """Put an object in the place of the one with this ETag; returns the new one's.

        Raises Refused `object_changed` if it is another.
        """
        import obstore  # noqa: PLC0415 - see _store

        with translated(self.address, name, what="write"):
            put = obstore.put(self._store, name, content, mode={"e_tag": etag}, use_multipart=False)
        return put["e_tag"] or ""

    def upload(self, name: str, path: Path) -> None:
        """Put a file, in parts where it is large, over whatever has its name; durable on return.

        Memory holds a few parts, which are larger where a file has more than 160 GB. The object is seen once all parts
        are in; those of an upload that failed are removed. Of a process that was killed they stay, unseen, until the
        bucket's own rule for unfinished uploads removes them.
        """
        import obstore  # noqa: PLC0415 - see _store

        with translated(self.address, name, what="write"):
            size = path.stat().st_size
            part = max(PART_BYTES, -(-size // MOST_PARTS))
            obstore.put(
                self._store, name, path, use_multipart=size > part, chunk_size=part, max_concurrency=PARTS_AT_ONCE
            )

    def read(self, name: str, most: int) -> tuple[bytes, str]:
        """Return an object and its ETag; raises Refused `object_changed` if it has more than `most` bytes."""
        import obstore  # noqa: PLC0415 - see _store

        with translated(self.address, name):
            found = obstore.get(self._store, name)
            if found.meta["size"] > most:
                text = f"{self}/{name} has {found.meta['size']} bytes, more than it can have: it is not ours"
                raise Refused("object_changed", text)
            return bytes(found.bytes()), found.meta["e_tag"] or ""

    def part(self, name: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to `end` of an object, fewer where it is shorter."""
        import obstore  # noqa: PLC0415 - see _store

        with translated(self.address, name):
            return bytes(obstore.get_range(self._store, name, start=start, end=end))

    def stream(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of an object in order, PART_BYTES at a time; none of an empty one.

        Each part is a request of its own, so that its time is bounded and the object's is not: whoever unpacks may be
        slow, and a base copy takes minutes. Raises Refused `object_changed` if it is replaced meanwhile.
        """
        import obstore  # noqa: PLC0415 - see _store

        at, size, etag = 0, 1, ""
        while at < size:
            options: Any = {"range": (at, at + PART_BYTES), **({"if_match": etag} if etag else {})}
            try:
                with translated(self.address, name):
                    found = obstore.get(self._store, name, options=options)
                    size, etag = found.meta["size"], found.meta["e_tag"] or ""
                    part = bytes(found.bytes())
            except Unavailable:
                if at == 0 and self.size(name) == 0:
                    return  # a store refuses any range of it
                raise
            if not part:
                raise Refused("object_changed", f"{self}/{name} ends at {at} of {size} bytes; read it again")
            at += len(part)
            yield part

    def size(self, name: str) -> int:
        """Return the size of an object in bytes."""
        import obstore  # noqa: PLC0415 - see _store

        with translated(self.address, name):
            return int(obstore.head(self._store, name)["size"])

    def listed(self, prefix: str = "") -> Iterator[Held]:
        """Yield the objects below the place `prefix`, all pages. A store may list late what was just put or deleted."""
        import obstore  # noqa: PLC0415 - see _store

        with translated(self.address, prefix, what="list"):
            for page in obstore.list(self._store, prefix or None):
                for one in page:
                    yield Held(one["path"], one["size"], one["e_tag"] or "", one["last_modified"])

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; of none that is not there. With versions kept, a bucket keeps what they were."""
        import obstore  # noqa: PLC0415 - see _store

        for first in range(0, len(names), NAMES_PER_DELETE):
            some = names[first : first + NAMES_PER_DELETE]
            with translated(self.address, some[0], what="delete"):
                obstore.delete(self._store, list(some))


def bucket_of(text: str) -> Bucket:
    """Return the place that `s3://bucket/prefix` names; nothing is contacted. Raises Refused `bucket_address`."""
    return Bucket(parse(text))
