"""Whose `X-Forwarded-For` is believed: that of our own proxies, and of it only what they have added."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from errors import Refused


class TrustedProxies:
    """Addresses whose headers are believed: networks or single addresses, separated by commas.

    `name` is the variable that has them: of proxies `X-Forwarded-For` is believed, of HONGBAO_TRACE_FROM `traceparent`.
    """

    def __init__(self, setting: str, name: str = "HONGBAO_TRUSTED_PROXIES") -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        for text in filter(None, (one.strip() for one in setting.split(","))):
            try:
                self._networks.append(ip_network(text))
            except ValueError:
                raise Refused(
                    "settings_invalid", f"{name}: {text!r} is no address or network like 10.0.0.0/8"
                ) from None

    def __bool__(self) -> bool:
        """Say whether there are any."""
        return bool(self._networks)

    def trusts(self, address: str) -> bool:
        """Say whether a proxy of ours has this address."""
        if not self._networks:
            return False
        try:
            parsed: IPv4Address | IPv6Address = ip_address(address)
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            # A socket for both kinds of addresses shows those of IPv4 like this.
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._networks)

    def client_of(self, proxy: str, forwarded: Iterable[str]) -> str:
        """Return the client's address: of those in `X-Forwarded-For` the last that is no proxy of ours.

        What stands before that address was written by the client and is not believed. If there is none, or it is no
        address, the proxy's own counts.
        """
        for text in reversed([one.strip() for line in forwarded for one in line.split(",")]):
            try:
                ip_address(text)
            except ValueError:
                return proxy
            if not self.trusts(text):
                return text
        return proxy
