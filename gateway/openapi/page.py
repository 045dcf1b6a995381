"""The OpenAPI document as one HTML page: no script, nothing loaded from elsewhere, an anchor for each problem code."""

import json
import re
from html import escape
from typing import Any, Final

from gateway.http.answer import PROBLEM
from gateway.openapi.document import CODES
from gateway.openapi.fields import Markup, fields, type_of
from gateway.problems import ADVICE, PROBLEMS

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem;color:#222;background:#fff}
h1{color:#b8121b}h2{border-bottom:1px solid #ddd;margin-top:2.5rem}code,pre{background:#f6f2ee;border-radius:4px}
pre{padding:.7rem;overflow:auto}code{padding:.1rem .3rem}table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid #eee;padding:.3rem .6rem;text-align:left;vertical-align:top}
td code{overflow-wrap:anywhere}td:first-child code{overflow-wrap:normal}h3{margin:1.5rem 0 .3rem}
@media(max-width:40rem){h2 code{overflow-wrap:anywhere}th{display:none}tr{display:block;border-bottom:1px solid #8884}
td{border:0;padding:.15rem .3rem;display:inline-block}td:last-child{display:block}}
a{color:#0b57d0}tr:target,h3:target{background:#fdebd0}.m{color:#b8121b;font-weight:bold}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}code,pre{background:#2a2a2a}h1,.m{color:#ff7a70}
a{color:#8ab4f8}td,th,h2{border-color:#333}tr:target,h3:target{background:#4a3a20}}
"""
_CODE: Final = re.compile(r"`([^`]+)`")
_MARKUP: Final = Markup(
    lambda words: _CODE.sub(r"<code>\1</code>", escape(words)),
    lambda words: f"<code>{escape(words)}</code>",
    lambda name: f'<a href="#{name}"><code>{name}</code></a>',
)
_HANDBOOK = '<p>With examples, a tutorial and the reasons: <a href="docs/">the documentation</a></p>'


def render_docs(spec: dict[str, Any], *, handbook: bool = False) -> str:
    """Return the OpenAPI document `spec` as a page of HTML; all its texts are escaped.

    `handbook`: the page leads to the documentation site, which is served beside it.
    """
    info = spec["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>{escape(info['title'])}</h1>{_paragraphs(info['description'])}",
        '<p>The same for machines: <a href="/openapi.json"><code>/openapi.json</code></a></p>',
        *([_HANDBOOK] if handbook else []),
    ]
    for path, operations in spec["paths"].items():
        parts += [_operation(spec, method, path, operation) for method, operation in operations.items()]
    parts += ["<h2>Objects</h2>", *_objects(spec), "<h2>Problems</h2>", _problems(), "</main></body></html>"]
    return "\n".join(parts)


def _operation(spec: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = [_resolved(spec, one) for one in operation.get("parameters", ())]
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{one['in']}</td><td>{_MARKUP.text(one['description'])}</td></tr>"
        for one in parameters
    )
    answers = "".join(_answer(status, one) for status, one in operation["responses"].items())
    return (
        f'<h2 id="{operation["operationId"]}"><span class="m">{method.upper()}</span> <code>{escape(path)}</code></h2>'
        f"{_paragraphs(operation['description'])}"
        + (f"<table>{rows}</table>" if rows else "")
        + _body(spec, operation)
        + f"<table>{answers}</table>"
    )


def _answer(status: str, response: dict[str, Any]) -> str:
    """Return a row: what an answer holds, or the problems that may come with this status."""
    problem = response.get("content", {}).get(PROBLEM)
    if problem is None:
        text = escape(response["description"])
        schemas = [one["schema"] for one in response.get("content", {}).values() if "$ref" in one["schema"]]
        text += "".join(f": {type_of(one, _MARKUP)}" for one in schemas)
    else:
        text = ", ".join(f'<a href="#{code}"><code>{code}</code></a>' for code in response[CODES])
    return f"<tr><td><code>{status}</code></td><td>{text}</td></tr>"


def _body(spec: dict[str, Any], operation: dict[str, Any]) -> str:
    media = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if media is None:
        return ""
    needed = "The body" if operation["requestBody"].get("required") else "The body, which may be left out"
    return f"<p>{needed}:</p>{_fields(_resolved(spec, media['schema']))}" + "".join(
        # Long lines scroll inside it, also by keyboard.
        f"<p>{escape(one['summary'])}:</p>"
        f'<pre tabindex="0">{escape(json.dumps(one["value"], indent=2, ensure_ascii=False))}</pre>'
        for one in media.get("examples", {}).values()
    )


def _objects(spec: dict[str, Any]) -> list[str]:
    """Return each object that a request or an answer holds, itself or inside another one."""
    found: dict[str, None] = {}
    _find(spec, spec["paths"], found)
    schemas = spec["components"]["schemas"]
    return [f'<h3 id="{name}">{name}</h3>{_fields(schemas[name])}' for name in schemas if name in found]


def _find(spec: dict[str, Any], node: Any, found: dict[str, None]) -> None:
    if isinstance(node, dict):
        name = str(node.get("$ref", "")).partition("#/components/schemas/")[2]
        if name and name not in found:
            found[name] = None
            _find(spec, spec["components"]["schemas"][name], found)
        for one in node.values():
            _find(spec, one, found)
    elif isinstance(node, list):
        for one in node:
            _find(spec, one, found)


def _fields(schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"<p>{_MARKUP.text(schema.get('description', ''))} {type_of(schema, _MARKUP)}</p>"
    rows = "".join(
        f"<tr><td>{one.name}</td><td>{one.type}{'' if one.required else ', may be missing'}</td>"
        f"<td>{one.meaning}</td></tr>"
        for one in fields(schema, _MARKUP)
    )
    return f'<table class="f"><tr><th>field</th><th>type</th><th>meaning</th></tr>{rows}</table>'


def _problems() -> str:
    rows = "".join(
        f'<tr id="{code}"><td><code>{code}</code></td><td>{row.status}</td><td>{escape(row.title)}</td>'
        f"<td>{row.retry.value}</td></tr>"
        for code, row in sorted(PROBLEMS.items())
    )
    words = "".join(f"<tr><td><code>{word}</code></td><td>{escape(text)}</td></tr>" for word, text in ADVICE.items())
    return (
        f"<table><tr><th>code</th><th>status</th><th>title</th><th>retry</th></tr>{rows}</table>"
        f"<p>What to do, by the word in <code>retry</code>:</p><table>{words}</table>"
    )


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_MARKUP.text(part)}</p>" for part in text.split("\n\n"))


def _resolved(spec: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in one:
        return one
    found: Any = spec
    for key in one["$ref"].removeprefix("#/").split("/"):
        found = found[key]
    return dict(found)
