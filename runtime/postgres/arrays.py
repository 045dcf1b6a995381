"""Array literals of Postgres: a batch is sent as one text per column.

Use it for arrays of thousands of elements: asyncpg encodes a list element by element, which takes several times as long
as Postgres needs to read the text (docs/performance.md). The statement casts the text: `unnest($1::text::bigint[],
$2::text::varchar[])`.
"""

from collections.abc import Iterable, Sequence

import msgspec

_json = msgspec.json.Encoder().encode


def numbers(values: Sequence[int | None]) -> str:
    """Return the literal of an array of integers; None is NULL.

    JSON and Postgres write integers and null alike, and msgspec's encoder is the fastest way to write them.
    """
    return f"{{{_json(values)[1:-1].decode()}}}"


def array(elements: Iterable[str]) -> str:
    """Return the literal of an array of `elements` that are texts already and need no quotes."""
    return f"{{{','.join(elements)}}}"


def texts(values: Sequence[str]) -> str:
    """Return the literal of an array of texts; each is quoted, so none is read as NULL."""
    if not values:
        return "{}"
    joined = '","'.join(values)
    if "\\" in joined or joined.count('"') != 2 * (len(values) - 1):
        joined = '","'.join(map(_escaped, values))
    return f'{{"{joined}"}}'


def joined(arrays: Iterable[str]) -> str:
    """Return the concatenation of `arrays`, which are literals."""
    return array(one[1:-1] for one in arrays if one != "{}")


def texts_or_null(values: Iterable[str | None]) -> str:
    """Return the literal of an array of texts in which None is NULL."""
    return array("NULL" if one is None else f'"{_escaped(one)}"' for one in values)


def flags(values: Iterable[bool]) -> str:
    """Return the literal of an array of booleans."""
    return array("t" if one else "f" for one in values)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
