"""What is in a bucket, as files to look into."""

from pathlib import Path

from objectstore.bucket import Bucket


def copied(bucket: Bucket, folder: Path) -> Path:
    """Copy all objects below a place into a folder; returns it."""
    for one in bucket.listed():
        path = folder / one.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.read(one.name, 1 << 30)[0])
    return folder
