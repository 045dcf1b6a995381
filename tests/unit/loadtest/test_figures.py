from pathlib import Path

from loadtest.bench import plots
from loadtest.bench.figures import interleaved
from loadtest.bench.workloads import hot, many
from loadtest.wrk import client as wrk


async def test_contenders_take_turns_and_medians_are_told() -> None:
    """Each round is one turn of each, in order; an outlier in one round does not become the figure."""
    turns: list[str] = []
    rates = {"ours": iter([10.0, 1.0, 12.0]), "theirs": iter([3.0, 2.0, 900.0])}

    async def turn(name: str) -> float:
        turns.append(name)
        return next(rates[name])

    found = await interleaved(3, {"ours": lambda: turn("ours"), "theirs": lambda: turn("theirs")})
    assert turns == ["ours", "theirs"] * 3
    assert found == {
        "ours": {"median": 10.0, "runs": [10.0, 1.0, 12.0]},
        "theirs": {"median": 3.0, "runs": [3.0, 2.0, 900.0]},
    }


def test_hot_is_one_after_the_other_and_many_are_in_turn() -> None:
    """A hot workload empties an envelope before the next, a workload of many goes round."""
    few = many("many", 2, 2, waiting=1, seconds=1.0)
    assert list(few.asks([7, 8])) == [(7, "user-0"), (8, "user-0"), (7, "user-1"), (8, "user-1")]
    asks = list(hot(10, envelopes=2, seconds=1.0).asks([7, 8]))
    assert [envelope for envelope, _ in asks] == [7] * 10_000 + [8] * 10_000
    assert len(set(asks)) == len(asks)


def test_what_wrk_says_is_read() -> None:
    """Rates, latencies in any unit, refusals and broken connections are found in its report."""
    said = """
  Latency Distribution
     50%  500.00us
     75%   16.00ms
     90%   17.06ms
     99%    1.20s
  30000 requests in 2.01s, 5.00MB read
  Socket errors: connect 0, read 1, write 0, timeout 2
  Non-2xx or 3xx responses: 4
Requests/sec:  14925.37
"""
    assert wrk.read(said) == wrk.Fired(30_000, 14925.37, 0.5, 1200.0, refused=4, broken=3)


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    """A picture holds no date and no random name, so that it changes only with its figures."""
    curve = [{"connections": size, "per_second": 100.0 * size, "p99_ms": float(size)} for size in (1, 8, 64)]
    figures = {"cap": 8, "curves": {"hot": curve, "many": curve}}
    seen = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        assert plots.connections(figures, folder) == ["connections.svg"]
        seen.append((folder / "connections.svg").read_bytes())
    assert seen[0] == seen[1]
    assert b"<dc:date>" not in seen[0]
