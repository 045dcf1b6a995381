"""Which envelope a text names: its ID, or a share ID in place of ID and share token."""

from gateway.identity.share_tokens import ShareTokens, is_share_id
from gateway.parsing.calendar import Calendar
from gateway.sets.calls import Sets
from gateway.sets.target import Target
from sharding.ids import format_id, parse_id


class Targets:
    """Reads IDs and share IDs by the topology and calendar of now."""

    def __init__(self, sets: Sets, calendar: Calendar, share_tokens: ShareTokens) -> None:
        self._sets = sets
        self._calendar = calendar
        self._share_tokens = share_tokens

    def read(self, text: str) -> tuple[Target, bool]:
        """Return the envelope, and whether the text is a share ID; raises Refused with the code of what is wrong."""
        topology, shared = self._sets.topology, is_share_id(text)
        if shared:
            text = format_id(self._share_tokens.read(text))
        envelope_id = parse_id(text, topology.layout)
        self._calendar.check(envelope_id, topology.zone)
        return Target(envelope_id), shared
