import io

import msgspec
import pytest
from rich.console import Console

from audit.report import Report, Sums
from loadtest.load.plots import draw
from loadtest.load.report import make_report, show
from loadtest.tally import Tally

START = 1_800_000_000


def a_tally():
    """Ten seconds of 100 opens and 50 grabs each, latencies 1 to 100 ms; in the fifth second twice as many opens."""
    tally = Tally()
    for second in range(10):
        for number in range(200 if second == 5 else 100):
            tally.record("open", "opened" if number % 2 else "sold_out", 1.0 + number % 100, START + second)
        for _ in range(50):
            tally.record("grab", "openable", 2.0, START + second + 0.998)
        tally.seconds[START + second].users = second
    tally.won = [("1", "a", 5)]
    return tally


def report_of(tally=None, proof=None, wrong=()):
    return make_report("nye", {"users": 5}, tally or a_tally(), proof or Report(), list(wrong))


def test_figures():
    """Requests, rates over the seconds from first to last, percentiles within a percent, and the best second."""
    report = report_of()
    grab, opens, every = report.lines
    assert (grab.call, opens.call, every.call) == ("grab", "open", "all")
    assert (grab.requests, opens.requests, every.requests) == (500, 1_100, 1_600)
    assert (grab.rate, opens.rate, every.rate) == (50.0, 110.0, 160.0)
    assert opens.p50_ms == pytest.approx(50, rel=0.011)
    assert opens.p95_ms == pytest.approx(95, rel=0.011)
    assert opens.p99_ms == pytest.approx(99, rel=0.011)
    assert opens.max_ms == 100.0
    assert opens.results == {"opened": 550, "sold_out": 550}
    assert report.peak_rate == 250.0
    assert (report.seconds, report.told, report.holds) == (10.0, 1, True)


def failing():
    tally = a_tally()
    tally.fail("open answered 500 internal_error")
    return tally


def violated():
    proof = Report()
    proof.add("paid_once", "1.0", "paid twice", 5)
    return proof


@pytest.mark.parametrize(
    "report",
    [
        report_of(failing()),
        report_of(proof=violated()),
        report_of(proof=Report(sums=Sums(in_flight=1))),
        report_of(wrong=["a was told 5 fen of 1, the claim log has nothing"]),
    ],
    ids=["failure", "violation", "in flight", "contradiction"],
)
def test_what_makes_it_fail(report):
    """One failure, violation, payout that does not come through, or word that does not stand is enough."""
    assert not report.holds
    paper = io.StringIO()
    show(report, Console(file=paper, width=200))
    assert "it does not hold" in paper.getvalue()


@pytest.mark.parametrize(("busy", "limit"), [(1, False), (2, False), (3, True), (10, True)])
def test_a_busy_client_is_told(busy, limit):
    """A client above 90 % of a core in more than a fifth of the seconds has measured itself."""
    tally = a_tally()
    for second in range(10):
        tally.seconds[START + second].client_cpu = 0.95 if second < busy else 0.5
    report = report_of(tally)
    assert report.client_was_the_limit is limit
    assert report.client_cpu == 0.95


def test_nothing_seen():
    """A run without answers has figures too: zeros."""
    report = report_of(Tally())
    assert [line.requests for line in report.lines] == [0]
    assert report.peak_rate == 0


def test_it_is_json_and_readable():
    """The JSON is one object of plain values; the table names every call and its results."""
    report = report_of()
    assert msgspec.json.decode(msgspec.json.encode(report))["lines"][1]["p99_ms"] == report.lines[1].p99_ms
    paper = io.StringIO()
    show(report, Console(file=paper, width=120))
    assert "everything adds up" in paper.getvalue()
    assert "opened 550, sold_out 550" in paper.getvalue()


def test_plots_are_the_same_every_time(tmp_path):
    """The same tally gives the same bytes, and an empty one gives empty pictures."""
    tally = a_tally()
    names = draw(tally, "nye", tmp_path / "a")
    draw(tally, "nye", tmp_path / "b")
    assert sorted(names) == ["answers.svg", "latency.svg"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    draw(Tally(), "nye", tmp_path / "c")
