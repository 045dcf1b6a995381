"""Batches go to Postgres as array literals, one text for each column.

asyncpg encodes a list element by element and asks each of them whether it is a container: 0.5 µs an element,
several times what Postgres takes to read it as text (docs/performance.md). A statement says what the text is:
`unnest($1::text::bigint[], $2::text::varchar[])`.
"""

from collections.abc import Iterable, Sequence

import msgspec

_json = msgspec.json.Encoder().encode


def numbers(values: Sequence[int | None]) -> str:
    """Return the literal of an array of integers; None is NULL.

    Between the brackets JSON and Postgres write integers, and null, alike: 0.02 µs a number instead of 0.1.
    """
    return f"{{{_json(values)[1:-1].decode()}}}"


def array(elements: Iterable[str]) -> str:
    """Return the literal of an array whose elements are written already and need no quotes."""
    return f"{{{','.join(elements)}}}"


def texts(values: Sequence[str]) -> str:
    """Return the literal of an array of texts, each in quotes: whatever they hold, none of them is read as NULL."""
    if not values:
        return "{}"
    joined = '","'.join(values)
    if "\\" in joined or joined.count('"') != 2 * (len(values) - 1):
        joined = '","'.join(map(_escaped, values))
    return f'{{"{joined}"}}'


def joined(arrays: Iterable[str]) -> str:
    """Return the literal of the array that has the elements of all `arrays`, literals themselves."""
    return array(one[1:-1] for one in arrays if one != "{}")


def texts_or_null(values: Iterable[str | None]) -> str:
    """Return the literal of an array in which None is NULL."""
    return array("NULL" if one is None else f'"{_escaped(one)}"' for one in values)


def flags(values: Iterable[bool]) -> str:
    """Return the literal of an array of booleans."""
    return array("t" if one else "f" for one in values)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
