"""The OpenAPI document says what the handlers do: routes, statuses, limits and codes come from the same places."""

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from cli.table import main
from envelope.limits import LIMITS
from envelope.outcomes import Outcome
from gateway.openapi import document
from gateway.openapi.operations import OPERATIONS
from gateway.openapi.page import render_docs
from gateway.openapi.refusals import NO_ROUTE_CODES, REFUSALS, by_status
from gateway.openapi.schemas import CREATE, SCHEMAS
from gateway.openapi.webhooks import SCHEMAS as OF_EVENTS
from gateway.parsing.parameters import OpenBody
from gateway.parsing.terms import RawCreateTerms, read_terms
from gateway.problems import INSIDE, PROBLEMS
from gateway.routes import ROUTES
from runtime import version
from runtime.version import VERSION
from sharding.ids import make_id
from tests.unit.gateway.test_terms import NOW_MS
from wire.cloud_events import EVENTS, CloudEvent

SPEC = document()
ROOT = Path(__file__).resolve().parents[3]


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


def test_one_version():
    """The package, the command and the document have one version, from one line."""
    told = CliRunner().invoke(main, ["--version"]).output.split()[-1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert SPEC["info"]["version"] == told == VERSION
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == Path(version.__file__).relative_to(ROOT).as_posix()


def test_it_is_json_and_whole():
    """Every reference leads somewhere, and every schema is used."""
    text = json.loads(json.dumps(SPEC))
    for one in refs(text):
        node = text
        for key in one.removeprefix("#/").split("/"):
            node = node[key]
    assert {one.rpartition("/")[2] for one in refs(text) if "/schemas/" in one} == {*SCHEMAS, *OF_EVENTS}


ALL = set(OPERATIONS)
V1 = {route.name for route in ROUTES if route.template.startswith("/v1") and not OPERATIONS[route.name].public}
"""Those that ask for a user's token."""
WITH_ID = {route.name for route in ROUTES if "{id}" in route.template}
WITH_BODY = {name for name, one in OPERATIONS.items() if one.body}
ASKS = {"openEnvelope", "grabEnvelope"}
LISTS = {"listWalletEntries", "listMyEnvelopes"}
BY_SOURCE = {
    "gateway/dispatch.py": (ALL, NO_ROUTE_CODES),
    "gateway/resources.py": (ALL, NO_ROUTE_CODES),
    "gateway/identity/tokens.py": (V1, {"malformed_user"}),  # making one is no request
    "gateway/identity/auth_failures.py": (V1, set()),
    "gateway/http/body.py": (WITH_BODY, {"missing_field"}),  # an open needs no field
    "gateway/parsing/parameters.py": ({"createEnvelope"}, {"malformed_year"}),  # getTotals only
    "gateway/parsing/terms.py": ({"createEnvelope"}, set()),
    "gateway/parsing/texts.py": ({"createEnvelope", *ASKS}, set()),
    "gateway/parsing/paging.py": (LISTS, set()),
    "gateway/handlers/wallets.py": ({"listMyEnvelopes"}, set()),
    "gateway/handlers/play.py": ({"makePlayToken"}, {"settings_invalid"}),  # at the start
    "gateway/handlers/ops.py": ({"getReadiness"}, {"metrics_key_missing"}),  # getMetrics only
    "gateway/sets/routing.py": (WITH_ID | {"createEnvelope"}, set()),
    "gateway/sets/calls.py": (WITH_ID | {"createEnvelope"}, set()),
    "gateway/handlers/outcomes.py": (ASKS, set()),
    "envelope/outcomes.py": (WITH_ID, set()),
    "sharding/ids.py": (WITH_ID, set()),
    "sharding/topology/spec.py": (WITH_ID | {"createEnvelope"}, set()),
    "wire/link.py": (V1, set()),
    "wire/server.py": (V1, set()),
    "setnode/dispatch.py": (WITH_ID | {"createEnvelope"}, {"malformed_envelope_id"}),
    "setnode/actors/actor.py": (WITH_ID, set()),
    "setnode/actors/access.py": ({"cancelEnvelope"}, set()),
    "setnode/activation/cold.py": (WITH_ID, set()),
    "setnode/creation/creator.py": ({"createEnvelope"}, set()),
    "setnode/creation/coalescer.py": ({"createEnvelope"}, set()),
    "setnode/creation/request.py": ({"createEnvelope"}, set()),
    "setnode/commit/create_queue.py": ({"createEnvelope"}, set()),
    "setnode/commit/fences.py": ({"createEnvelope"}, set()),
    "setnode/days.py": ({"createEnvelope"}, set()),
    "wallet/readers.py": ({"getWallet", "getTotals", *LISTS}, set()),
}
"""Who comes by a module, and the codes in it that not all of them can hear."""


@pytest.mark.parametrize("source", BY_SOURCE)
def test_what_a_module_raises_is_listed_for_those_who_come_by(source):
    """A route's list holds every code raised in the modules that its requests pass."""
    routes, but = BY_SOURCE[source]
    raised = set(re.findall(r"(?:Refused|Unavailable)\(\s*\"([a-z_]+)\"", (ROOT / source).read_text()))
    assert raised, "nothing is raised here any more: take it out"
    for name in routes:
        assert raised - but - INSIDE <= set(REFUSALS[name]), name


def test_every_problem_is_somebodys():
    """Each code of the table belongs to a route (or to what is no route), no code is listed twice or unknown."""
    assert set(REFUSALS) == ALL
    assert {code for codes in REFUSALS.values() for code in codes} | NO_ROUTE_CODES == set(PROBLEMS)
    assert all(len(set(codes)) == len(codes) for codes in REFUSALS.values())
    assert set(SCHEMAS["Problem"]["properties"]["code"]["enum"]) == set(PROBLEMS)


def test_who_cannot_hear_what():
    """The lists differ where the calls do: no body, no ID, no money, no word of them."""
    assert not {"body_too_large", "malformed_envelope_id", "insufficient_funds"} & set(REFUSALS["getWallet"])
    assert {name for name in ALL if "insufficient_funds" in REFUSALS[name]} == {"createEnvelope"}
    assert {name for name in ALL if "body_too_large" in REFUSALS[name]} == WITH_BODY
    others = {"watchEnvelopes", "getTotals"}
    assert {name for name in ALL if "unknown_parameter" in REFUSALS[name]} == LISTS | others
    assert {name for name in ALL if len(by_status(name).get(504, ())) > 1} == {"createEnvelope"}
    assert {name for name in ALL if 429 in by_status(name)} == V1
    assert {name for name in ALL if 401 in by_status(name)} == V1 | {"getMetrics"}


def test_the_document_says_it_by_status():
    """An operation's responses are its answers and its problems; 429, 503 and 504 come with Retry-After."""
    for path, item in SPEC["paths"].items():
        for one in item.values():
            name = one["operationId"]
            statuses = {*OPERATIONS[name].answers, *by_status(name)}
            assert {int(status) for status in one["responses"]} == statuses, path
            for status, response in one["responses"].items():
                assert ("Retry-After" in response["headers"]) == (status in {"429", "503", "504"})


def test_outcomes():
    """Every outcome is the result of an answer or of a problem."""
    results = SCHEMAS["Result"]["properties"]["result"]["enum"] + SCHEMAS["Problem"]["properties"]["result"]["enum"]
    assert sorted(results) == sorted(Outcome)


@pytest.mark.parametrize(("struct", "schema"), [(RawCreateTerms, "CreateEnvelope"), (OpenBody, "Ask")])
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
    for name, section in zip(
        (route.name for route in ROUTES), re.split(r'<h2 id="', page.partition("<h2>Problems")[0])[1:], strict=True
    ):
        assert section.startswith(name)
        assert set(re.findall(r'href="#([a-z_]+)"', section)) == set(REFUSALS[name])
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", page)


def test_the_page_has_every_field() -> None:
    """The page explains each body: every field of every object; a type that is an object leads to it."""
    page = render_docs(SPEC)
    for name, schema in SCHEMAS.items():
        section = page.partition(f'<h3 id="{name}">')[2].partition("<h3 ")[0]
        for field in schema.get("properties", ()):
            assert f"<tr><td><code>{field}</code></td>" in section, (name, field)
    assert set(re.findall(r'href="#([A-Z]\w+)"', page)) <= set(re.findall(r'<h3 id="(\w+)"', page))
    create = page.partition('<h2 id="createEnvelope">')[2].partition("<h2 ")[0]
    assert "<td><code>expires_in_s</code></td><td>integer or null, may be missing</td><td>Seconds it stays" in create
    assert '<tr><td><code>kind</code></td><td><a href="#Kind"><code>Kind</code></a></td><td>Shares by luck' in create
    assert 'Made, now or before: <a href="#Envelope">' in create


def test_every_field_has_a_meaning() -> None:
    """No field of an object is without words."""
    mute = [
        f"{name}.{field}"
        for name, schema in SCHEMAS.items()
        for field, one in schema.get("properties", {}).items()
        if not one.get("description")
    ]
    assert mute == []


def test_every_event_is_a_webhook() -> None:
    """A generated client has a type for each event: its attributes, and what it says."""
    found = SPEC
    for one in EVENTS:
        call = found["webhooks"][one.TYPE]["post"]
        (media,) = call["requestBody"]["content"].values()
        whole = found["components"]["schemas"][media["schema"]["$ref"].rpartition("/")[2]]
        said = found["components"]["schemas"][whole["properties"]["data"]["$ref"].rpartition("/")[2]]
        assert whole["properties"]["type"]["const"] == one.TYPE
        assert set(whole["properties"]) == {field.name for field in msgspec.structs.fields(CloudEvent)}
        assert set(said["properties"]) == {field.name for field in msgspec.structs.fields(one)}
        assert call["summary"].endswith(".")
