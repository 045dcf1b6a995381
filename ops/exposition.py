"""Prometheus' text format, as our own processes write it: read into numbers, and joined from many processes to one."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping

# A label's text may hold whatever Unicode takes for the end of a line; the format knows \n alone, which it escapes.
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$", re.DOTALL)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"', re.DOTALL)

Labels = tuple[tuple[str, str], ...]
Exposed = Mapping[str, Mapping[Labels, float]]
"""By name and labels, in order of name."""


def read(text: str) -> dict[str, dict[Labels, float]]:
    """Return the samples of a text; lines that are none are passed over, and values that are no number yet (NaN)."""
    found: dict[str, dict[Labels, float]] = {}
    for line in text.split("\n"):
        matched = None if line.startswith("#") else _SAMPLE.match(line)
        if matched is None:
            continue
        try:
            value = float(matched[3])
        except ValueError:
            continue
        if not math.isfinite(value):
            continue
        labels = tuple(sorted(_LABEL.findall(matched[2]))) if matched[2] else ()
        found.setdefault(matched[1], {})[labels] = value
    return found


def total(exposed: Exposed, name: str, **where: str) -> float:
    """Return the sum over all samples of a name that have these labels; 0 if there is none."""
    wanted = set(where.items())
    return sum(value for labels, value in exposed.get(name, {}).items() if wanted <= set(labels))


def by_label(exposed: Exposed, name: str, label: str) -> dict[str, float]:
    """Return the sums of a name by the value of one label."""
    sums: dict[str, float] = {}
    for labels, value in exposed.get(name, {}).items():
        key = dict(labels).get(label, "")
        sums[key] = sums.get(key, 0.0) + value
    return sums


def join(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of one exposition out of many, (part, text): each sample gets the label `part`.

    All samples of a metric stand together under one HELP and TYPE, as the format demands.
    """
    families: dict[str, tuple[list[str], list[str]]] = {}
    for part, text in texts:
        mark = f'part="{part}"'
        family: tuple[list[str], list[str]] = ([], [])
        for line in text.split("\n"):
            if line.startswith(("# HELP ", "# TYPE ")):
                family = families.setdefault(line.split(" ", 3)[2], ([], []))
                if line not in family[0]:
                    family[0].append(line)
            elif matched := _SAMPLE.match(line):
                labels = f"{mark},{matched[2]}" if matched[2] else mark
                family[1].append(f"{matched[1]}{{{labels}}} {matched[3]}")
    for heads, samples in families.values():
        yield from heads
        yield from samples
