"""An envelope as a person names it on the command line: by its ID, or by the share ID that went into the group."""

from gateway.identity.share_tokens import ShareTokens, is_share_id
from installation.access import Access
from sharding.ids import parse_id
from sharding.slots import Layout


def read_envelope_id(text: str, access: Access, layout: Layout | None = None) -> int:
    """Return the envelope's ID. `layout`: which slots there are, if the topology is not to be asked.

    Raises Refused as `sharding.ids.parse_id`, and `share_id_invalid` for a share ID that was not made here.
    """
    if is_share_id(text):
        return ShareTokens(access.key("SHARE_KEY")).read(text)
    return parse_id(text, layout or access.topology().layout)
