"""The API for people: each operation of the OpenAPI document with its fields, an example answer and its problems."""

import json
from typing import Final

from gateway.http.answer import PROBLEM
from gateway.openapi import document
from gateway.openapi.document import CODES
from gateway.openapi.fields import Markup, Schema, fields, meaning, type_of
from handbook import examples
from handbook.markdown import anchor, block, code, link, paragraphs, sections, table, text

_JSON: Final = "application/json"
_MARKUP: Final = Markup(text, code, lambda name: link(name, f"api.md#{name}"))


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
                type_of(found["schema"], _MARKUP),
                meaning(found["schema"], found["description"], _MARKUP),
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
        kind = (
            f"; the body is {type_of(schema, _MARKUP)}"
            if "$ref" in schema
            else f"; the body is {media}"
            if media
            else ""
        )
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
        return sections((text(schema.get("description", "")), f"One of these words: {type_of(schema, _MARKUP)}."))
    return table(
        ("field", "type", "meaning"),
        (
            (one.name, one.type + ("" if one.required else ", may be missing"), one.meaning)
            for one in fields(schema, _MARKUP)
        ),
    )


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIO' else 'a'} {_MARKUP.link(name)}"


def _json(value: object) -> str:
    return block("json", json.dumps(value, indent=2, ensure_ascii=False))
