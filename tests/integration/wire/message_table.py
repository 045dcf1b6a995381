"""What may change in the messages of a link between two releases.

`python -m tests.integration.wire.message_table` prints the present table, for the file of a release.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envelope.outcomes import Outcome
from wire.shapes.table import MAY_BE_MISSING, described

KINDS = ("args", "replies", "notices", "errors", "rows")


def table() -> dict[str, Any]:
    """All that crosses releases: the shapes, and the places of outcomes."""
    now = described()
    now["numbers"]["Outcome"] = {one.name: place for place, one in enumerate(Outcome)}
    return now


def breaks(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Name what an end of the release `old` would misread, or fail at, in the messages of `new`, and the reverse."""
    for kind in KINDS:
        for name, fields in old[kind].items():
            if name not in new[kind]:
                yield f"{kind} {name} is gone"
                continue
            yield from _moved(f"{kind} {name}", fields, new[kind][name])
    for name, numbers in old["numbers"].items():
        for word, number in numbers.items():
            if new["numbers"].get(name, {}).get(word) != number:
                yield f"{name}.{word} is not {number} any more"


def _moved(what: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for place, field in enumerate(old):
        if place >= len(new) or new[place] not in (field, field + MAY_BE_MISSING):
            yield f"{what}: place {place} was {field!r}, is {new[place] if place < len(new) else 'nothing'!r}"
    for field in new[len(old) :]:
        if not field.endswith(MAY_BE_MISSING):
            yield f"{what}: {field!r} was appended without a default"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(table(), indent=1) + "\n")
