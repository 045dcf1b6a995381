"""Which pods may talk to which, by all NetworkPolicies together."""

from collections.abc import Iterator
from typing import Any

from tests.unit.deploy.manifests import Pod


def connections(manifests: list[dict[str, Any]], pods: list[Pod]) -> Iterator[tuple[Pod, Pod, int]]:
    """Yield (from, to, port) of each connection that the policies of both ends allow."""
    policies = [one["spec"] for one in manifests if one["kind"] == "NetworkPolicy"]
    for client in pods:
        for server in pods:
            for name, port in server.ports.items():
                known = {port, name}
                if _allowed(policies, "egress", client, server, known) and _allowed(
                    policies, "ingress", server, client, known
                ):
                    yield client, server, port


def _allowed(policies: list[dict[str, Any]], way: str, here: Pod, there: Pod, port: set[int | str]) -> bool:
    """Say whether any policy for `here` lets it talk to `there`; one that is selected by none may talk to everybody."""
    ours = [one for one in policies if way.capitalize() in one["policyTypes"] and _selects(one["podSelector"], here)]
    peers = {"egress": "to", "ingress": "from"}[way]
    return not ours or any(
        (peers not in rule or any(_is_peer(one, there) for one in rule[peers]))
        and ("ports" not in rule or any(one["port"] in port for one in rule["ports"]))
        for policy in ours
        for rule in policy.get(way, ())
    )


def _is_peer(peer: dict[str, Any], pod: Pod) -> bool:
    """Pods of other namespaces, and addresses elsewhere, are none of ours."""
    return set(peer) == {"podSelector"} and _selects(peer["podSelector"], pod)


def _selects(selector: dict[str, Any], pod: Pod) -> bool:
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    for one in selector.get("matchExpressions", ()):
        assert one["operator"] == "In"
        if pod.labels.get(one["key"]) not in one["values"]:
            return False
    return all(pod.labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())
