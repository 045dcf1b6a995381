"""Metrics read and joined: every sample keeps its value, and what cannot be read is passed over."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ops.exposition import by_label, join, read, total

_VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(_VALUES, st.floats(0, 1e12), st.integers(0, 40))
def test_what_prometheus_writes_is_read(value: str, amount: float, count: int) -> None:
    """Counters, gauges and histograms are read as Prometheus' own parser reads them, whatever stands in a label."""
    registry = CollectorRegistry()
    Counter("c", "counter", ("why",), registry=registry).labels(value).inc(amount)
    Gauge("g", "gauge", registry=registry).set(-amount)
    histogram = Histogram("h", "histogram", registry=registry)
    for _ in range(count):
        histogram.observe(0.3)
    text = generate_latest(registry).decode()
    found = read(text)
    assert total(found, "c_total") == amount
    assert total(found, "g") == -amount
    assert by_label(found, "h_bucket", "le")["+Inf"] == count
    joined = "\n".join([*join([("one", text), ("other", text)]), ""])
    samples = [sample for family in text_string_to_metric_families(joined) for sample in family.samples]
    assert {sample.labels["part"] for sample in samples} == {"one", "other"}
    for sample in samples:
        if sample.name == "c_total":
            assert (sample.labels["why"], sample.value) == (value, amount)


@given(st.text(max_size=200))
def test_nonsense_is_passed_over(text: str) -> None:
    """A part that answers something else than metrics breaks nothing."""
    read(text)
    list(join([("part", text)]))


def test_what_is_no_number_yet_is_not_there() -> None:
    """A gauge is NaN until its process has looked: a part that has just started must not break the page."""
    assert read("a NaN\nb +Inf\nc 1\n") == {"c": {(): 1.0}}


def test_families_stand_together() -> None:
    """The samples of one metric follow its one HELP and TYPE, as the format demands."""
    text = "# HELP a A\n# TYPE a gauge\na 1\n# HELP b B\n# TYPE b gauge\nb 2\n"
    assert list(join([("x", text), ("y", text)])) == [
        "# HELP a A", "# TYPE a gauge", 'a{part="x"} 1', 'a{part="y"} 1',
        "# HELP b B", "# TYPE b gauge", 'b{part="x"} 2', 'b{part="y"} 2',
    ]  # fmt: skip
