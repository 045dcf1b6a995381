"""The section that measures what traces and metrics cost, as far as it needs no stack."""

from loadtest.bench import observing


def test_what_an_open_pays_is_all_looks_and_one_choice() -> None:
    """A row for each way to choose sums up what runs inline and that choice alone."""
    looks = dict.fromkeys(observing.LOOKS, 10.0)
    looks |= {
        "gateway: the choice by our own coin": 100.0,
        "gateway: the choice by a trusted caller's header": 400.0,
    }
    scrape = {"wallet": {"cpu_ms": 1.25, "lines": 130}}
    coin, header, *_, last = observing.rows({"unsampled_ns": looks, "scrapes": scrape})
    assert [coin.figure, header.figure] == ["0.17 µs", "0.47 µs"]
    assert (last.what, last.figure) == ("a scrape of wallet", "1.2 ms CPU")


async def test_every_look_is_timed_on_what_runs() -> None:
    """Each look names things that exist: a name that was changed fails here, not in a benchmark."""
    found = observing.unsampled(runs=100)
    assert set(observing.LOOKS) < set(found)
    assert all(cost >= 0 for cost in found.values())
