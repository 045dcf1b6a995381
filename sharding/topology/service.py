"""What was taken out of service on purpose, in words: people forget what they have paused or drained."""

from sharding.topology.spec import Topology


def out_of_service(topology: Topology) -> dict[str, str]:
    """Return a sentence for each SET that is paused or has a drained server, by its name."""
    return {
        one.name: "; ".join(
            [
                *([f"{one.name} is paused: its users get 503 (dba resume {one.name})"] if one.paused else ()),
                *(f"{server} is drained (dba undrain {server})" for server in one.drained),
            ]
        )
        for one in topology.sets
        if one.paused or one.drained
    }
