"""The events as they are on their way to receivers; what they say is in `wire.cloud_events`."""

from typing import Final, NamedTuple

import msgspec

from runtime.version import VERSION
from wire.cloud_events import CloudEvent

BATCH_CONTENT_TYPE: Final = "application/cloudevents-batch+json"
USER_AGENT: Final = f"hongbao/{VERSION}"


class Event(NamedTuple):
    """One event on its way to a sink: `body` is what is sent, one JSON object; the others are what it says."""

    envelope_id: int
    id: str
    type: str
    body: bytes


_encode = msgspec.json.Encoder().encode


def event(envelope_id: int, cloud: CloudEvent) -> Event:
    """Return an event ready to be sent."""
    return Event(envelope_id, cloud.id, cloud.type, _encode(cloud))
