"""Which certificates may not be used, or soon may not be: the files here, and what servers at https:// show."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from cryptography import x509

from doctor.finding import Finding, Level
from doctor.limits import SHOWN_S
from doctor.place import Place
from errors import Refused
from installation.access import Access
from installation.certificates import CA_CERT, RENEW_DAYS
from runtime.tls import Tls, problem_of, read_certificate
from runtime.tls_errors import sentence_of

SOON = timedelta(days=RENEW_DAYS)
_DO = "./run installation certificates makes new ones; processes of this data folder read them by themselves."
_DO_CA = 'Replace it as docs/operations/certificates.md says, "Before they end": it signs nothing in its last month.'
_DO_THERE = "./run installation certificates makes a new one; bring it to where that server reads its own."


async def certificates(place: Place) -> list[Finding]:
    """Look at each file of the data folder, and connect to each server whose URL is https://."""
    if place.access is None:
        return []
    files = list(place.access.certificates.names())
    urls = _urls(place)
    if not files and not urls:
        return []
    found = [*_files(place.access), *await _shown(place.access, urls)]
    return found or [Finding("certificates", Level.OK, "certificates", f"{len(files)} are valid for {RENEW_DAYS} days")]


def _files(access: Access) -> Iterator[Finding]:
    for path in access.certificates.names():
        try:
            problem, level = _judged(read_certificate(path.read_bytes(), path), str(path))
        except (Refused, OSError) as error:
            problem, level = str(getattr(error, "detail", error)), Level.WRONG
        if problem:
            yield Finding("certificates", level, path.stem, _sentence(problem), _DO_CA if path.name == CA_CERT else _DO)


async def _shown(access: Access, urls: dict[str, str]) -> list[Finding]:
    """Say what is wrong with what the servers show; one that is away is said by `parts`."""
    if not urls:
        return []
    tls = access.tls
    if tls is None:
        what = "Servers are called at https:// and there is no certificate for operators here."
        return [Finding("certificates", Level.WRONG, "operator", what, _DO)]
    shown = await asyncio.gather(*(_shown_at(url, tls) for url in urls.values()))
    return [
        Finding("certificates", level, name, _sentence(problem), _DO_THERE)
        for name, (problem, level) in zip(urls, shown, strict=True)
        if problem
    ]


async def _shown_at(url: str, tls: Tls) -> tuple[str, Level]:
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(SHOWN_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=tls.client)
    except (OSError, TimeoutError) as error:
        # A connection whose handshake failed is closed in the next turn of the loop, which may be this loop's last.
        await asyncio.sleep(0)
        return sentence_of(error, url), Level.WRONG
    try:
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return _judged(x509.load_der_x509_certificate(shown), f"that {url} shows")
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(SHOWN_S):
                await writer.wait_closed()


def _urls(place: Place) -> dict[str, str]:
    """Return the URLs of servers that speak TLS, by name."""
    urls = {"wallet": place.access.wallet_url} if place.access is not None else {}
    if place.topology is not None:
        urls |= {server.name: server.url for one in place.topology.sets for server in one.servers}
    return {name: url for name, url in urls.items() if urlsplit(url).scheme == "https"}


def _judged(certificate: x509.Certificate, where: str) -> tuple[str, Level]:
    """Return what is wrong with a certificate now, or will be before SOON; "" if nothing is."""
    problem = problem_of(certificate, where)
    return (problem, Level.WRONG) if problem else (problem_of(certificate, where, soon=SOON), Level.SOON)


def _sentence(problem: str) -> str:
    what = problem.partition("; ")[0]
    return f"{what[:1].upper()}{what[1:]}."
