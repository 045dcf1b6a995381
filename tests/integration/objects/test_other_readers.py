"""What others read in a bucket, without any code of ours: the lines of docs/operations/archive.md."""

import asyncio
from datetime import date
from typing import Any

from objectstore.bucket import Bucket
from tests.integration.archive.fixtures import DAY
from tests.integration.archive.test_commands import NEXT, Kept, kept
from tests.integration.objects.faulty_front import FaultyFront
from tests.integration.objects.fixtures import bucket, front
from tests.markdown_blocks import DOCS, blocks

__all__ = ["bucket", "front", "kept"]


async def test_duckdb_reads_a_bucket_by_its_partitions(kept: Kept, bucket: Bucket, front: FaultyFront) -> None:
    """DuckDB with a file system of another maker sees day and database as columns, and the rows that we count."""
    await kept.json("archive", "copy", str(bucket))
    (block,) = [one for one in blocks(DOCS / "operations/archive.md") if one.language == "python"]
    place = str(bucket).removeprefix("s3://")
    seen: dict[str, Any] = {}
    await asyncio.to_thread(exec, block.code.replace("bucket/prefix", place), seen)
    sql = "SELECT day, xx, count(*), sum(amount_fen)::BIGINT FROM claim GROUP BY ALL ORDER BY ALL"
    ours = (await kept.json("query", sql))["rows"]
    found = [[str(day), int(xx), *sums] for day, xx, *sums in seen["claims"]]
    assert found == ours
    assert [date.fromisoformat(one[0]) for one in found] == [DAY, DAY, NEXT, NEXT]
    assert len(front.seen) > 4
    seen["duck"].close()
