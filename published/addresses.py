"""Publishes where servers are: the first topology of an installation, or new addresses in the one there is."""

from collections.abc import Sequence

from published.publisher import Publisher
from sharding.topology import SetSpec, Topology
from sharding.topology.addresses import first, readdressed


async def publish_addresses(publisher: Publisher, sets: Sequence[SetSpec], *, wallet_url: str, slots: int) -> Topology:
    """Publish a first topology with `slots` slots, or these addresses in the one there is; returns it, durable.

    A start and a move may change it at the same time: neither undoes the other's change. Raises as
    `Publisher.change_topology` and `sharding.topology.addresses`.
    """
    await publisher.first_topology(first(sets, wallet_url, slots))
    return await publisher.change_topology(lambda old: readdressed(old, sets, wallet_url))
