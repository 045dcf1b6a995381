"""The sections on growth, commits, memory, payouts and expiry run at a tiny size, and their money adds up."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest.bench import commits, expiry, fill, footprint, objects, payouts
from loadtest.bench.arrivals import Overrun, open_loop
from loadtest.bench.figures import Bench
from loadtest.bench.growth import SECTION, section
from loadtest.bench.growth.size import TINY
from loadtest.bench.oneset import one_set
from loadtest.plan import check
from setnode.commit import claim_queue

pytestmark = [pytest.mark.timeout(180), pytest.mark.long]

FEW = (1, 8, 64)
"""Opens in flight."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    # Not pytest's own folder: the account that Postgres runs as may not enter it.
    with tempfile.TemporaryDirectory(prefix="hongbao-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield Bench(folder, quick=True, say=lambda _: None)


async def test_growth_is_measured(bench: Bench, tmp_path: Path) -> None:
    """All three questions are answered, every audit holds, and pictures are drawn the same twice."""
    found = await section.grow(bench, TINY)
    assert [point["alive"] for point in found["alive"]["points"]] == [50, 100]
    assert found["tables"]["claims"] == 4_000
    for cpu in found["sets"], found["sets"]["saturated"]:
        assert set(cpu["cpu_us_per_open"]) == {"1", "2", "3", "4"}
    assert all(one.holds for one in bench.audits), bench.audits
    assert len(list(SECTION.rows(found))) == 12
    names = list(SECTION.plots(found, tmp_path))
    first = [(tmp_path / name).read_bytes() for name in names]
    assert [(tmp_path / name).read_bytes() for name in SECTION.plots(found, tmp_path)] == first


async def test_payouts_drain(bench: Bench) -> None:
    """A backlog that grew while the wallet was away is paid to the fen."""
    found = await payouts.measure(bench, payouts.TINY)
    assert found["opens_per_second"] > 0
    assert found["credits_per_second"] > 0
    assert all(one.holds for one in bench.audits), bench.audits


async def test_what_was_created_is_closed(bench: Bench) -> None:
    """All envelopes of a round stand, fall due together, and are refunded to the fen."""
    found = await expiry.measure(bench, expiry.TINY)
    assert found["creates_per_second"] > 0
    assert found["closings_per_second"] > 0
    assert len(list(expiry.SECTION.rows(found))) == 2
    assert all(one.holds for one in bench.audits), bench.audits


@pytest.mark.long
async def test_a_day_goes_into_a_bucket(bench: Bench) -> None:
    """All claims of the day are read back from the bucket, and each envelope asked for comes out of it."""
    found = await objects.measure(bench, objects.TINY)
    assert found["claims"] == objects.TINY.claims
    assert found["s3_export_claims_per_s"] > 0
    assert found["s3_cold_read_ms"] > 0
    assert len(list(objects.SECTION.rows(found))) == 3


async def test_commits_are_calibrated(bench: Bench) -> None:
    """A group commit has a fixed part and one per row, and leaves bytes behind."""
    found = await commits.measure(bench, seconds=0.1, windows=FEW, claims=8_000)
    assert found["fixed_ms"] > 0
    assert found["wal_bytes_per_claim"] > 50
    assert all(one.holds for one in bench.audits), bench.audits


async def test_more_than_a_set_carries_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opens that come faster than they are committed hear `busy`: no fault of the SET's, and its money adds up."""
    monkeypatch.setattr(claim_queue, "STALE_S", 0.01)
    async with one_set(bench.scratch("overrun")) as one:
        with pytest.raises(Overrun, match="more than the SET carries now"):
            await open_loop(one, 500_000, 0.1, random.Random(1))
        assert await fill.adds_up(one)


async def test_the_model_is_compared_with_a_run(bench: Bench) -> None:
    """The check ends with a prediction and what was seen at each load; how near they are is the machine's affair."""
    found = await check.compare(bench, turns=2, turn_s=0.1, windows=FEW)
    assert [one.part for one in found.points] == [0.3, 0.5, 0.7]
    assert all(one.seen_p99_ms > 0 and one.predicted_p99_ms > 0 for one in found.points)
    assert 0 <= found.stolen < 1


async def test_envelopes_have_a_weight() -> None:
    """Who has opened weighs more, and an envelope asleep weighs next to nothing by Python's own account."""
    fresh, full = await footprint.weigh_one("fresh:traced", 500), await footprint.weigh_one("full:traced", 500)
    assert 300 < fresh < full < 10_000
    assert await footprint.weigh_one("asleep:traced", 2_000) < 300
