"""The API for people: each operation of the OpenAPI document with its fields, an example answer and its problems."""

import json
from typing import Any, Final

from gateway.http.answer import PROBLEM
from gateway.openapi import document
from gateway.openapi.document import CODES
from handbook import examples
from handbook.markdown import anchor, block, code, link, paragraphs, sections, table, text

_JSON: Final = "application/json"
_TYPES: Final = {"object": "object", "array": "list", "boolean": "true or false", "null": "null"}
Schema = dict[str, Any]


def operations() -> str:
    """Return every operation in the order of the document."""
    spec = document()
    return sections(
        _operation(spec, method, path, one) for path, ones in spec["paths"].items() for method, one in ones.items()
    )


def objects() -> str:
    """Return the fields of every object that a request or an answer holds."""
    schemas: dict[str, Schema] = document()["components"]["schemas"]
    return sections(sections((f"### {name}", anchor(name), _fields(schema))) for name, schema in schemas.items())


def _operation(spec: Schema, method: str, path: str, operation: Schema) -> str:
    name = operation["operationId"]
    asked = "" if operation.get("security") == [] else "The client sends the user's bearer token."
    return sections(
        (
            f"### {text(operation['summary'])}",
            anchor(name),
            block("http", f"{method.upper()} {path} HTTP/1.1"),
            paragraphs(operation["description"]),
            asked,
            _parameters(spec, operation),
            _body(operation),
            _answers(name, operation),
            _problems(operation),
        )
    )


def _parameters(spec: Schema, operation: Schema) -> str:
    known = spec["components"]["parameters"]
    rows = []
    for one in operation.get("parameters", ()):
        found = known[one["$ref"].rpartition("/")[2]]
        needed = "" if found["required"] else ", may be left out"
        rows.append(
            (
                code(found["name"]),
                f"{found['in']}{needed}",
                _type(found["schema"]),
                _meaning(found["schema"], found["description"]),
            )
        )
    return table(("parameter", "where", "type", "meaning"), rows)


def _body(operation: Schema) -> str:
    media = operation.get("requestBody", {}).get("content", {}).get(_JSON)
    if media is None:
        return ""
    name = media["schema"]["$ref"].rpartition("/")[2]
    needed = "The body" if operation["requestBody"].get("required") else "The body, which may be left out,"
    shown = [f"{text(one['summary'])}:\n\n{_json(one['value'])}" for one in media.get("examples", {}).values()]
    return sections((f"{needed} is {_article(name)} object.", *shown))


def _answers(name: str, operation: Schema) -> str:
    parts = []
    for status, one in operation["responses"].items():
        content = one.get("content", {})
        if PROBLEM in content:
            continue
        media = next(iter(content), "")
        schema = content.get(media, {}).get("schema", {})
        kind = f"; the body is {_type(schema)}" if "$ref" in schema else f"; the body is {media}" if media else ""
        parts.append(f"**{status}**: {text(one['description'])}{kind}.")
        if status.startswith("2") and name in examples.ANSWERS:
            example = examples.ANSWERS[name]
            parts.append(_json(example) if media == _JSON else block("text", str(example)))
    return sections(parts)


def _problems(operation: Schema) -> str:
    rows = (
        (status, ", ".join(link(each, f"problems.md#{each}") for each in one[CODES]))
        for status, one in operation["responses"].items()
        if CODES in one
    )
    return table(("status", "problems"), rows)


def _fields(schema: Schema) -> str:
    if "properties" not in schema:
        return sections((text(schema.get("description", "")), f"One of these words: {_type(schema)}."))
    needed = schema.get("required", ())
    return table(
        ("field", "type", "meaning"),
        (
            (
                code(name),
                _type(one) + ("" if name in needed else ", may be missing"),
                _meaning(one, one.get("description", "")),
            )
            for name, one in schema["properties"].items()
        ),
    )


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return link(name, f"api.md#{name}")
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return " or ".join(code("null" if one is None else str(one)) for one in schema["enum"])
    kinds = schema.get("type", "object")
    names = [_TYPES.get(one, one) for one in ([kinds] if isinstance(kinds, str) else kinds)]
    if "items" in schema:
        names[0] = f"list of {_type(schema['items'])}"
    return " or ".join(names)


def _meaning(schema: Schema, description: str) -> str:
    """Return what a field means, then its bounds."""
    bounds = []
    for low, high, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        if low in schema and schema[low] == schema.get(high):
            bounds.append(f"{schema[low]:,}{unit}")
        elif low in schema and high in schema:
            bounds.append(f"{_number(schema[low])} to {_number(schema[high])}{unit}")
        elif high in schema:
            bounds.append(f"{_number(schema[high])}{unit} at most")
        elif schema.get(low):
            bounds.append(f"{_number(schema[low])}{unit} at least")
    if schema.get("format") == "date-time":
        bounds.append("an instant of RFC 3339")
    if "default" in schema:
        bounds.append(f"{code(str(schema['default']))} unless said")
    if "pattern" in schema:
        bounds.append(f"pattern {code(schema['pattern'])}")
    told = [text(description)] if description else []
    return " ".join([*told, *([f"({'; '.join(bounds)})"] if bounds else [])])


def _number(value: int) -> str:
    return f"{value:,}" if value > 9999 else str(value)  # noqa: PLR2004 - years have no comma


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIO' else 'a'} {link(name, f'api.md#{name}')}"


def _json(value: object) -> str:
    return block("json", json.dumps(value, indent=2, ensure_ascii=False))
