"""The OpenAPI document says what the handlers do: routes, statuses, limits and codes come from the same places."""

import json
import re

import msgspec
import pytest

from envelope.limits import LIMITS
from envelope.outcomes import Outcome
from gateway.asks import Ask
from gateway.docs import render_docs
from gateway.openapi import document
from gateway.openapi.operations import OPERATIONS
from gateway.openapi.schemas import CREATE, SCHEMAS
from gateway.problems import PROBLEMS
from gateway.routes import ROUTES
from gateway.terms import CreateBody, read_terms
from sharding.ids import make_id
from tests.unit.gateway.test_terms import NOW_MS

SPEC = document()


def refs(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


def test_it_has_every_route_and_no_other():
    """Routes, operations and paths are the same set, with the same names."""
    documented = {
        (method.upper(), path, one["operationId"])
        for path, item in SPEC["paths"].items()
        for method, one in item.items()
    }
    assert documented == {tuple(route) for route in ROUTES}
    assert set(OPERATIONS) == {route.name for route in ROUTES}


def test_it_is_json_and_whole():
    """Every reference leads somewhere, and every schema is used."""
    text = json.loads(json.dumps(SPEC))
    for one in refs(text):
        node = text
        for key in one.removeprefix("#/").split("/"):
            node = node[key]
    assert {one.rpartition("/")[2] for one in refs(text) if "/schemas/" in one} == set(SCHEMAS)


def test_every_error_has_a_status_in_it():
    """Each status of the table of problems is described, and each operation names only such."""
    statuses = {row.status for row in PROBLEMS.values()}
    assert set(SPEC["components"]["responses"]) == {f"Problem{status}" for status in statuses}
    assert {status for one in OPERATIONS.values() for status in one.problems} <= statuses
    assert set(SCHEMAS["Problem"]["properties"]["code"]["enum"]) == set(PROBLEMS)


def test_outcomes():
    """Every outcome is the result of an answer or of a problem."""
    results = SCHEMAS["Result"]["properties"]["result"]["enum"] + SCHEMAS["Problem"]["properties"]["result"]["enum"]
    assert sorted(results) == sorted(Outcome)


@pytest.mark.parametrize(("struct", "schema"), [(CreateBody, "CreateEnvelope"), (Ask, "Ask")])
def test_bodies_have_the_fields_that_are_read(struct, schema):
    """The structs that decode a body and its schema name the same fields, the same of them needed."""
    fields = msgspec.structs.fields(struct)
    assert {field.name for field in fields} == set(SCHEMAS[schema]["properties"])
    assert {field.name for field in fields if field.required} == set(SCHEMAS[schema]["required"])
    assert SCHEMAS[schema]["additionalProperties"] is False


def test_limits():
    """The document's numbers are the limits' numbers."""
    fields = CREATE["properties"]
    assert fields["total_fen"]["maximum"] == LIMITS.max_total_fen
    assert fields["count"]["maximum"] == LIMITS.max_count
    assert fields["greeting"]["maxLength"] == LIMITS.greeting_chars
    assert fields["to"]["maxItems"] == LIMITS.invited_users
    assert fields["expires_in_s"]["maximum"] == LIMITS.max_expires_in_s


def test_examples_are_legal():
    """Every example of a create is one that the door takes."""
    for example in OPERATIONS["createEnvelope"].examples.values():
        assert read_terms(json.dumps(example["value"]).encode(), NOW_MS)


def test_the_pattern_of_ids():
    """The first and the last ID that there can be fit the pattern; their neighbours do not."""
    from datetime import date

    pattern = SPEC["components"]["parameters"]["id"]["schema"]["pattern"]
    for day in (date(2010, 1, 1), date(2026, 11, 21), date(2092, 12, 31)):
        assert re.search(pattern, str(make_id(day, 10**10 - 1, 999)))
    for text in ("0912311234567890123", "9301011234567890123", "2513011234567890123", "1" * 18, "1" * 20):
        assert not re.search(pattern, text)


def test_the_page():
    """The page has every operation and an anchor for every problem, and loads nothing from anywhere."""
    page = render_docs(SPEC)
    assert all(f'id="{code}"' in page for code in PROBLEMS)
    assert all(f'id="{name}"' in page for name in OPERATIONS)
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", page)
