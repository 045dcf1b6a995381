"""Keeps calls of webhooks out of the own network: what a name resolves to is looked at when the connection is made.

Without it whoever may name a receiver could have us call what only we can reach (server-side request forgery). The look
is taken at the addresses that are connected to, so a name that resolves to another address the next time gains nothing.
"""

import asyncio
import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from errors import Refused

_UNICAST = ipaddress.ip_network("2000::/3")
"""The IPv6 that is given to hosts of the Internet. Other addresses stand for IPv4, for sites, or for nothing yet."""
_TRANSLATED = tuple(map(ipaddress.ip_network, ("2002::/16", "2001::/32")))
"""Addresses among them that stand for an IPv4 address, which may be a private one."""

PRIVATE = "it is an address of a private network; --private allows it"


RESOLVE_S = 3.0
"""A name that has not been resolved by then may be one that only the deliverer's network knows."""


class PrivateAddressError(OSError):
    """A receiver's host has no address outside of private networks."""


def is_public(address: str) -> bool:
    """Say whether an IP address belongs to the public Internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip not in _UNICAST or any(ip in network for network in _TRANSLATED):
            return False
    return ip.is_global and not ip.is_multicast


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses alone; raises PrivateAddressError if a name has no other ones."""

    def __init__(self, inner: AbstractResolver | None = None) -> None:
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the public addresses of `host`."""
        found = await self._inner.resolve(host, port, family)
        public = [one for one in found if is_public(one["host"])]
        if not public:
            raise PrivateAddressError(f"{host} resolves to {found[0]['host'] if found else 'nothing'}: {PRIVATE}")
        return public

    async def close(self) -> None:
        """Close the inner resolver."""
        await self._inner.close()


async def check_public(host: str, resolver: AbstractResolver | None = None) -> None:
    """Raise Refused `address_private` if a name resolves to private addresses alone, as seen from here.

    One that cannot be resolved here passes: it is looked at again with every call.
    """
    public = PublicResolver(resolver)
    try:
        async with asyncio.timeout(RESOLVE_S):
            await public.resolve(host, family=socket.AF_UNSPEC)
    except PrivateAddressError as private:
        raise Refused("address_private", str(private)) from private
    except (OSError, TimeoutError, UnicodeError):
        return
    finally:
        await public.close()
