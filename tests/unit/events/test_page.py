"""The call that docs/apps/events.md has a test sign is signed as ours are."""

from base64 import b64encode
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from events.webhook.signing import key_of, signature
from tests.markdown_blocks import DOCS, blocks

PAGE = "apps/events.md"
SECRET, OTHER = ["whsec_" + b64encode(bytes([one]) * 32).decode() for one in (1, 2)]


def test_the_page_signs_as_we_do() -> None:
    """The same signature over the same bytes, which the library accepts under this secret and under no other."""
    named: dict[str, Any] = {}
    (text,) = [one.code for one in blocks(DOCS / PAGE) if one.run_by == "tests/unit/events/test_page.py"]
    exec(text, named)  # noqa: S102 - our own page
    event = {"id": "1.opened.0", "type": "share.opened", "data": {"user": "bob", "greeting": "恭喜发财"}}
    body, headers = named["signed"](event, SECRET)
    ours = signature([key_of(SECRET)], "1.opened.0", int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == ours
    assert Webhook(SECRET).verify(body, headers) == event
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(body, headers)
