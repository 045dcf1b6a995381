"""An envelope is named by its ID or by the share ID that went into the group; anything else is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from cli.envelope_id import read_envelope_id
from errors import Refused
from gateway.identity.share_tokens import ShareTokens
from sharding.slots import Layout

KEY, ID = "k" * 40, 2611210123456789073
ACCESS: Any = SimpleNamespace(key=lambda _: KEY, topology=lambda: SimpleNamespace(layout=Layout(100)))


def test_both_names_lead_to_the_envelope() -> None:
    assert read_envelope_id(str(ID), ACCESS) == read_envelope_id(ShareTokens(KEY).share_id_of(ID), ACCESS) == ID


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("12", "malformed_envelope_id"),
        ("abc", "malformed_envelope_id"),
        (str(ID + 100), "unknown_slot"),
        (ShareTokens("another" * 9).share_id_of(ID), "share_id_invalid"),
    ],
)
def test_what_names_none_is_refused(text: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        read_envelope_id(text, ACCESS)
    assert refused.value.code == code
