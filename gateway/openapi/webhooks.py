"""What the OpenAPI document says of events: the calls that a receiver of an app gets (docs/apps/events.md)."""

from typing import Any, Final

import msgspec

from gateway.openapi.schemas import Schema, ref
from wire.cloud_events import CONTENT_TYPE, EVENTS, CloudEvent

_, _SAID = msgspec.json.schema_components(EVENTS, ref_template="#/components/schemas/{name}")


def _event(data: type[msgspec.Struct], kind: str) -> Schema:
    """Return the schema of one type's event as it is sent."""
    fields = msgspec.structs.fields(CloudEvent)
    # All attributes of a CloudEvent but `data` are text.
    properties: Schema = {one.name: {"type": "string"} for one in fields}
    properties |= {"type": {"type": "string", "const": kind}, "data": ref(data.__name__)}
    required = [one.name for one in fields if one.name != "sequence"]
    return {"type": "object", "properties": properties, "required": required}


SCHEMAS: Final[dict[str, Schema]] = {
    **{one.__name__: _SAID[one.__name__] for one in EVENTS},
    **{f"{one.__name__}Event": _event(one, one.TYPE) for one in EVENTS},
}
"""By name: what each event says, and the whole of it as it is sent."""


def webhooks() -> dict[str, Any]:
    """Return a call for each type of event, by the type."""
    return {one.TYPE: {"post": _call(one)} for one in EVENTS}


def _call(data: type[msgspec.Struct]) -> Schema:
    summary, _, more = (data.__doc__ or "").partition("\n\n")
    return {
        "operationId": f"on{data.__name__}",
        "summary": " ".join(summary.split()),
        "description": " ".join(more.split())
        or "Signed after the Standard Webhooks specification; comes again until it is answered with 2xx.",
        "security": [],
        "requestBody": {"required": True, "content": {CONTENT_TYPE: {"schema": ref(f"{data.__name__}Event")}}},
        "responses": {"2XX": {"description": "The event is stored. Any other answer, and none, brings it again."}},
    }
