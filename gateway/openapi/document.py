"""Makes the OpenAPI document from routes, operations, problems and schemas."""

from http import HTTPStatus
from typing import Any, Final

from gateway.http.answer import PROBLEM
from gateway.openapi.operations import JSON, OPERATIONS, PARAMETERS, Operation
from gateway.openapi.refusals import by_status
from gateway.openapi.schemas import SCHEMAS, Schema, ref
from gateway.openapi.webhooks import SCHEMAS as OF_EVENTS
from gateway.openapi.webhooks import webhooks
from gateway.routes import ROUTES
from runtime.version import VERSION

_DESCRIPTION: Final = (
    "Send red envelopes (红包) and open them. Amounts are whole fen (1/100 yuan); IDs are strings.\n\n"
    "Every call may be repeated: it is done once. A repeated create gives its first answer again; a repeated open says "
    "already_opened, with the same amount, until the envelope's day is archived (a week after its creation, unless an "
    "operator is faster), then expired. When no answer came (a broken connection, 504), repeat the request to learn "
    "what happened.\n\n"
    "Every answer that is not 2xx is application/problem+json (RFC 9457) with a stable `code` and advice in `retry`; "
    "every answer has an X-Request-Id.\n\n"
    "From a browser: pages of the origins that the operators have named may call (CORS); preflights need no token."
)
CODES: Final = "x-codes"
"""Member of a response that is a problem: the codes that come with this status here."""
_HEADER: Final[dict[str, Schema]] = {
    "X-Request-Id": {
        "description": "Names this request in our logs: the client's own name for it, if it sent a fit one.",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}},
    "WWW-Authenticate": {"description": "The scheme, and what was wrong.", "schema": {"type": "string"}},
    "ETag": {
        "description": "Names this state of the envelope, as the user sees it on this page.",
        "schema": {"type": "string"},
    },
    "Idempotency-Replayed": {
        "description": "true: this is the answer of an earlier request.", "schema": {"type": "string", "const": "true"},
    },
}  # fmt: skip
_MORE: Final = {
    401: ("WWW-Authenticate",),
    429: ("Retry-After",),
    503: ("Retry-After",),
    504: ("Retry-After",),
    201: ("Idempotency-Replayed",),
}


def _to_envelope(operation: str) -> Schema:
    return {"operationId": operation, "parameters": {"path.id": "$response.body#/envelope_id"}}


def _to_next(operation: str) -> Schema:
    return {"operationId": operation, "parameters": {"query.cursor": "$response.body#/next_cursor"}}


_LINKS: Final[dict[str, dict[str, dict[str, Schema]]]] = {
    "createEnvelope": {"201": {name: _to_envelope(f"{name}Envelope") for name in ("get", "grab", "open", "cancel")}},
    "listWalletEntries": {"200": {"next": _to_next("listWalletEntries")}},
    "listMyEnvelopes": {"200": {"next": _to_next("listMyEnvelopes")}},
}
"""Which requests may follow an answer. The fuzzer, too, finds existing envelopes by these."""


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document as JSON values."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route.name, OPERATIONS[route.name])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hongbao",
            "version": VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "webhooks": webhooks(),
        "components": {
            "schemas": {**SCHEMAS, **OF_EVENTS},
            "parameters": PARAMETERS,
            "headers": _HEADER,
            "securitySchemes": {
                "token": {
                    "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                    "description": "HS256; `sub` is the user, `exp` is required.",
                }
            },
        },
        "security": [{"token": []}],
    }  # fmt: skip


def _operation(name: str, operation: Operation) -> Schema:
    entry: Schema = {
        "operationId": name,
        "summary": operation.summary,
        "description": operation.description,
        "responses": {**_responses(operation), **_problems(name)},
    }
    for status, links in _LINKS.get(name, {}).items():
        entry["responses"][status]["links"] = links
    parameters = operation.parameters if operation.public else (*operation.parameters, "timeout", "request_id")
    if parameters:
        entry["parameters"] = [{"$ref": f"#/components/parameters/{one}"} for one in parameters]
    if operation.body is not None:
        media = {"schema": ref(operation.body), "examples": operation.examples}
        entry["requestBody"] = {"required": operation.body_required, "content": {JSON: media}}
    if operation.public:
        entry["security"] = []
    return entry


def _responses(operation: Operation) -> Schema:
    return {
        str(status): {
            "description": description,
            "headers": _headers(
                *_MORE.get(status, ()), *(("ETag",) if HTTPStatus.NOT_MODIFIED in operation.answers else ())
            ),
            **({"content": {media: {"schema": schema}}} if media else {}),
        }
        for status, (description, media, schema) in operation.answers.items()
    }


def _problems(name: str) -> Schema:
    """Return a route's problems: by status, with the codes that each can have.

    All have the one schema, and the codes stand beside it: a schema for each would be a class for each in a client that
    is made from this document.
    """
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(codes)}",
            "headers": _headers(*_MORE.get(status, ())),
            "content": {PROBLEM: {"schema": ref("Problem")}},
            CODES: [*codes],
        }
        for status, codes in by_status(name).items()
    }


def _headers(*more: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *more)}
