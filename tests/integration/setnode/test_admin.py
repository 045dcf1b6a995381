"""What a server tells operators over HTTP, and that it tells nobody else."""

import aiohttp
import pytest

from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town
from tests.link_keys import GATEWAY_KEY, OPERATOR_KEY, setnode_key
from wire.ask import ask
from wire.handshake import LinkRefused

__all__ = ["common_town", "module_databases", "shared_town"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_hot_envelopes_are_told_to_operators_alone(common_town: Town) -> None:
    """An operator's key opens the list; a gateway's is not permitted to; that of a SET, or none, is refused."""
    node = common_town.nodes[0]
    name, url = node.settings.server, f"http://{node.settings.listen}/admin/hot"
    async with aiohttp.ClientSession() as session:
        assert await ask(session, OPERATOR_KEY, name, url, {"top": "3"}) == b"[]"
        with pytest.raises(aiohttp.ClientResponseError) as caught:
            await ask(session, OPERATOR_KEY, name, url, {"top": "0"})
        assert caught.value.status == 400
        with pytest.raises(aiohttp.ClientResponseError) as caught:
            await ask(session, GATEWAY_KEY, name, url)
        assert caught.value.status == 403
        with pytest.raises(LinkRefused):
            await ask(session, setnode_key(), name, url)
        for sent in ({}, {"Authorization": "Link key"}, {"Authorization": "Bearer é"}):
            async with session.get(url, headers=sent) as answer:
                assert answer.status == 401
                assert "not_permitted" not in await answer.text()
