"""The events: what all have in common, and the fields of each type, from their structs."""

import typing

import msgspec

from handbook.markdown import anchor, code, sections, table, text
from runtime.settings import meanings
from wire.cloud_events import EVENTS, CloudEvent

_TYPES: typing.Final = {str: "text", int: "whole number", bool: "true or false"}
_PLAIN: typing.Final = {
    "specversion": "`1.0`.",
    "source": "`hongbao`.",
    "type": "One of those below.",
    "datacontenttype": "`application/json`.",
    "data": "What happened: the fields below.",
    "envelope_id": "The envelope.",
    "amount_fen": "In fen.",
    "total_fen": "What the sender paid in, in fen.",
    "greeting": "The sender's words; may be empty.",
    "order_no": "The number of the transfer in the wallet.",
    "attempts": "How often it was tried.",
    "seq": "The claim's place in the order of opening, from 0.",
}
"""Of fields that need no docstring in the code."""


def envelope() -> str:
    """Return the members that every event has."""
    told = meanings(CloudEvent)
    rows = ((code(one), text(told[one]) if one in told else _PLAIN[one]) for one in CloudEvent.__struct_fields__)
    return table(("member", "meaning"), rows)


def events() -> str:
    """Return a section for each type, in the order of an envelope's life."""
    return sections(
        part for one in EVENTS for part in (f"## {one.TYPE}", anchor(one.TYPE), text(_first(one)), _data(one))
    )


def _data(kind: type[msgspec.Struct]) -> str:
    told, hints = meanings(kind), typing.get_type_hints(kind)
    return table(
        ("member of `data`", "type", "meaning"),
        (
            (code(name), _TYPES[hints[name]], text(told[name]) if name in told else _PLAIN.get(name) or _when(name))
            for name in kind.__struct_fields__
        ),
    )


def _when(name: str) -> str:
    if not name.endswith("_at"):
        raise LookupError(f"nothing says what {name} means")
    return "When, RFC 3339 in UTC."


def _first(kind: type[msgspec.Struct]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]
