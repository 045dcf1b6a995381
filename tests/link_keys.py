"""The keys of links in tests: as an installation with this root secret gives them to its processes."""

from wire.keys import GATEWAY, OPERATOR, SETNODE, WALLET, Accepted, LinkKey, root_key

ROOT = "the root secret of tests"
GATEWAY_KEY = root_key(ROOT, GATEWAY)
OPERATOR_KEY = root_key(ROOT, OPERATOR)


def setnode_key(set_name: str = "set-1") -> LinkKey:
    return root_key(ROOT, SETNODE, set_name)


def accepts(server: str) -> str:
    """The setting HONGBAO_ACCEPT_KEYS of a server."""
    keys = [root_key(ROOT, role, server) for role in (GATEWAY, OPERATOR)]
    if server == WALLET:
        keys.append(root_key(ROOT, SETNODE))
    return " ".join(key.text for key in keys)


class AnyServer(Accepted):
    """Accepts callers of any server's name, for scripted peers that stand in for several servers."""

    def __init__(self) -> None:
        super().__init__("", ())

    def key_of(self, path: str) -> LinkKey | None:
        return root_key(ROOT, *path.split("/"))
