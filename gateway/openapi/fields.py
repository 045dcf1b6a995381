"""What a field of a schema is, in words: its type, its meaning and its bounds. For pages of HTML and of Markdown."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from envelope.texts import TEXT_PATTERN

Schema = dict[str, Any]

_TYPES: Final = {"object": "object", "array": "list", "boolean": "true or false", "null": "null"}
_COMMA_FROM: Final = 10_000
"""Years have no comma."""


class Markup(NamedTuple):
    """How a page writes words, code, and a link to an object by its name."""

    text: Callable[[str], str]
    code: Callable[[str], str]
    link: Callable[[str], str]


class Field(NamedTuple):
    """A row of a table of fields; all but `required` are markup."""

    name: str
    type: str
    required: bool
    meaning: str


def fields(schema: Schema, markup: Markup) -> Iterator[Field]:
    """Yield the fields of an object."""
    needed = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        told = meaning(one, one.get("description", ""), markup)
        yield Field(markup.code(name), type_of(one, markup), name in needed, told)


def type_of(schema: Schema, markup: Markup) -> str:
    """Return a type, which is a link where it is an object of the document."""
    if "$ref" in schema:
        return markup.link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(type_of(one, markup) for one in schema["anyOf"])
    if "const" in schema:
        return markup.code(json.dumps(schema["const"]))
    if "enum" in schema:
        return " or ".join(markup.code("null" if one is None else str(one)) for one in schema["enum"])
    kinds = schema.get("type", "object")
    names = [_TYPES.get(one, one) for one in ([kinds] if isinstance(kinds, str) else kinds)]
    if "items" in schema:
        names[0] = f"list of {type_of(schema['items'], markup)}"
    return " or ".join(names)


def meaning(schema: Schema, description: str, markup: Markup) -> str:
    """Return what a field means, then its bounds."""
    bounds = [*_ranges(schema)]
    if schema.get("format") == "date-time":
        bounds.append("an instant of RFC 3339")
    if "default" in schema:
        bounds.append(f"{markup.code(str(schema['default']))} unless said")
    if schema.get("pattern") == TEXT_PATTERN:
        bounds.append("no line breaks, control characters or marks of direction")
    elif "pattern" in schema:
        bounds.append(f"pattern {markup.code(schema['pattern'])}")
    told = [markup.text(description)] if description else []
    return " ".join([*told, *([f"({'; '.join(bounds)})"] if bounds else [])])


def _ranges(schema: Schema) -> Iterator[str]:
    for low, high, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        if low in schema and schema[low] == schema.get(high):
            yield f"{schema[low]:,}{unit}"
        elif low in schema and high in schema:
            yield f"{_number(schema[low])} to {_number(schema[high])}{unit}"
        elif high in schema:
            yield f"{_number(schema[high])}{unit} at most"
        elif schema.get(low):
            yield f"{_number(schema[low])}{unit} at least"


def _number(value: int) -> str:
    return f"{value:,}" if value >= _COMMA_FROM else str(value)
