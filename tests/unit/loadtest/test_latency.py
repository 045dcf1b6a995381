import msgspec
import pytest

from loadtest.bench import latency
from loadtest.bench.ratios import RATIOS
from loadtest.histogram import Histogram
from loadtest.openloop.job import Finding

(HALF,) = [one for one in RATIOS if one.key == "p99_ms_half_load"]


def runs(*p99s):
    """One run for each: 200 opens, all of which take that long."""
    found = []
    for ms in p99s:
        seen = Histogram()
        for _ in range(200):
            seen.record(ms)
        found.append(latency.Went(Finding(200, 200, 0, 1.0, 200.0, 30.0), seen, stolen=0.04))
    return found


def figures(*p99s):
    loads = [latency._figures(share, runs(*p99s)) for share in latency.SHARES_OF_SATURATION]
    return {"saturation_per_second": 400.0, "connections": 256, "loads": loads}


def test_percentiles_are_the_medians_of_the_rounds():
    """One round that met noise does not move the figure; it is still in the maximum and in the list of runs."""
    one = figures(5.0, 500.0, 6.0)["loads"][0]
    assert one["p99_ms"] == pytest.approx(6.0, rel=0.011)
    assert one["max_ms"] == 500.0
    assert one["p99_ms_runs"] == pytest.approx([5.0, 500.0, 6.0], rel=0.011)
    assert (one["opens"], one["rate"]) == (600, 200.0)


@pytest.mark.parametrize(("ms", "holds"), [(19.0, True), (21.0, False)])
def test_the_promise_is_about_half_load(ms, holds):
    """p99 at 50 % of saturation is at most 20 ms."""
    found = figures(500.0)
    found["loads"][1] = figures(ms)["loads"][1]
    judged = HALF.judge({"latency": found})
    assert judged is not None
    assert judged["holds"] is holds
    assert HALF.judge({}) is None


def test_rows_and_plot(tmp_path):
    """Every load has its line, and the picture is the same every time; figures are JSON."""
    found = msgspec.json.decode(msgspec.json.encode(figures(5.0)))
    assert [row.what for row in latency.rows(found)][1] == "open loop at 25% (200 opens/s)"
    assert [row.more for row in latency.rows(found)][1].endswith("; the host took 4% of the cores")
    (name,) = latency.plots(found, tmp_path)
    first = (tmp_path / name).read_bytes()
    latency.plots(found, tmp_path)
    assert (tmp_path / name).read_bytes() == first
