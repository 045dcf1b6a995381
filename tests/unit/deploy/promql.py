"""What a query of Prometheus reads: metrics, with the labels that it asks of them, and the labels that it sums by."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import promql_parser

from handbook.figures import definitions
from runtime.metrics import REGISTRY

TARGETS = frozenset({"job", "instance", "part", "set"})
"""Labels that the scrape gives to every sample (deploy/prometheus/prometheus.yml)."""
FROM_PROMETHEUS = {"up": frozenset[str]()}
FROM_THE_OPERATORS_VIEW = {"hongbao_part_up": frozenset[str]()}
"""Not in a process's registry: ops/federation.py writes it."""


@cache
def exported() -> dict[str, frozenset[str]]:
    """Return the labels of every series that our processes export, by its name."""
    found = {**FROM_PROMETHEUS, **FROM_THE_OPERATORS_VIEW}
    samples = (sample for family in REGISTRY.collect() for sample in family.samples)
    found |= {one.name: frozenset[str]() for one in samples if one.name.startswith("process_")}
    for one in (one for room in definitions().values() for one in room):
        labels = frozenset(one.labels)
        if one.kind == "histogram":
            found |= {f"{one.name}_bucket": labels | {"le"}, f"{one.name}_sum": labels, f"{one.name}_count": labels}
        else:
            found[one.name] = labels
    return found


def wrong(query: str) -> list[str]:
    """Return a sentence for each metric and label of a query that no process exports; raises ValueError if it is none.

    A label by which is summed must be one of a metric below it.
    """
    return list(_wrong(promql_parser.parse(query)))


def metrics(query: str) -> set[str]:
    """Return the names of the series that a query reads."""
    return {name for name, _ in _selectors(promql_parser.parse(query))}


def _wrong(node: Any) -> Iterator[str]:
    for name, asked in _selectors(node):
        if name not in exported():
            yield f"no process exports {name}"
        elif strange := asked - exported()[name] - TARGETS:
            yield f"{name} has no label {', '.join(sorted(strange))}"
    yield from _wrong_sums(node)


def _wrong_sums(node: Any) -> Iterator[str]:
    known = TARGETS.union(*(exported().get(name, ()) for name, _ in _selectors(node)))
    modifier = getattr(node, "modifier", None)
    named = modifier if isinstance(node, promql_parser.AggregateExpr) else getattr(modifier, "matching", None)
    if named is not None and (strange := set(named.labels) - known):
        yield f"nothing below {node.prettify()} has the label {', '.join(sorted(strange))}"
    for one in _below(node):
        yield from _wrong_sums(one)


def _selectors(node: Any) -> Iterator[tuple[str, set[str]]]:
    if isinstance(node, promql_parser.VectorSelector):
        assert node.name, "a selector names its metric"
        yield node.name, {one.name for one in node.matchers.matchers}
    for one in _below(node):
        yield from _selectors(one)


def _below(node: Any) -> list[Any]:
    children = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    return [one for one in (*children, *getattr(node, "args", ())) if one is not None]
