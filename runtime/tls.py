"""TLS between our own processes: a certificate of this process, a CA of the installation, read again when they change.

Both ends show a certificate and both verify the other's: that it is of the CA, that its time has come and is not over,
and, at the calling end, that it is for the host which was called. The caller's role is in its certificate (`role_of`).
TLS 1.3 only; no session is resumed, because a resumed one would not look at certificates again. Who makes the files:
`installation.certificates`.

A certificate that may not be used is said once in the log, by `problem`, and nothing is served over it: a server ends
each handshake, a caller is refused by the other end. A file that cannot be read, or a key that does not fit, leaves in
use what was read before. A CA that is taken out of its file is forgotten at the next start.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp
from cryptography import x509

from errors import Refused
from runtime import logs, metrics
from runtime.periodic import Periodic
from runtime.tls_errors import RENEW

LOOK_S = 5.0
"""How often a process looks whether its files have changed: three small files."""
REFUSALS_PER_S = 1
"""Callers whose handshake failed that one process logs in a second: anybody can try."""

_log = logs.get("tls")
_not_after = metrics.gauge(
    "hongbao_tls_not_after_seconds", "When this process's certificate ends, Unix time; 0: no TLS"
)

_refusals = logs.Budget(REFUSALS_PER_S)

_NO_TLS: Final = frozenset({"HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
"""What OpenSSL says of a caller that does not speak TLS."""


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: the certificate, with those between it and the CA behind it; its key; the certificates of CAs.

    `cert` and `key` may be one file, which is then replaced in one step.
    """

    cert: Path
    key: Path
    ca: Path


def files_of(cert: str, key: str, ca: str) -> TlsFiles | None:
    """Return the files that HONGBAO_TLS_CERT, TLS_KEY and TLS_CA name; None without any.

    Raises Refused `settings_invalid` if only some are named; the key may be in the file of the certificate.
    """
    if not (cert or key or ca):
        return None
    if not cert or not ca:
        raise Refused("settings_invalid", "HONGBAO_TLS_CERT and HONGBAO_TLS_CA go together: both ends are verified")
    return TlsFiles(Path(cert), Path(key or cert), Path(ca))


class Tls:
    """What a process shows and believes: `server` is the context of its listener, `client` that of its calls.

    Raises Refused `tls_files_invalid` if the files cannot be read or do not fit together.
    """

    def __init__(self, files: TlsFiles) -> None:
        self.files = files
        self.server = _context(ssl.PROTOCOL_TLS_SERVER)
        self.client = _context(ssl.PROTOCOL_TLS_CLIENT)
        self.server.verify_mode = ssl.CERT_REQUIRED
        self.server.num_tickets = 0
        self.server.sni_callback = self._refuse_if_unusable
        self.server.sslobject_class = _Handshake
        self._read: tuple[bytes, ...] = ()
        self._told = ""
        self._take(self._contents())

    @property
    def problem(self) -> str:
        """Why the certificate may not be used now, as a sentence; "" if it may."""
        return problem_of(self._certificate, str(self.files.cert))

    def look(self) -> bool:
        """Take what the files have now, if they have changed; say if so. What is wrong is logged once and not taken."""
        try:
            contents = self._contents()
            changed = contents != self._read
            if changed:
                self._take(contents)
        except Refused as refused:
            self._tell(refused.detail)
            return False
        self._tell(self.problem)
        return changed

    def service(self) -> Periodic:
        """Return what looks every LOOK_S."""

        async def look() -> None:
            self.look()

        return Periodic("tls", look, interval_s=LOOK_S)

    def _contents(self) -> tuple[bytes, ...]:
        return tuple(_bytes_of(path) for path in (self.files.cert, self.files.key, self.files.ca))

    def _take(self, contents: tuple[bytes, ...]) -> None:
        """Load the contents, which were read once: tried in contexts of their own, then in those that are in use."""
        cert, key, ca = contents
        certificate = read_certificate(cert, self.files.cert)
        for context in (_context(ssl.PROTOCOL_TLS_SERVER), self.server, self.client):
            try:
                _load(context, cert, key)
                context.load_verify_locations(cadata=ca.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError, ValueError, OSError) as error:
                raise Refused(
                    "tls_files_invalid",
                    f"{self.files.cert}, {self.files.key} and {self.files.ca} are not a certificate, its key and the "
                    f"certificate of a CA ({getattr(error, 'reason', None) or error}); {RENEW}",
                ) from error
        self._certificate, self._read = certificate, contents
        _not_after.set(certificate.not_valid_after_utc.timestamp())
        _log.info("certificate", path=str(self.files.cert), until=certificate.not_valid_after_utc.isoformat())
        self._tell(self.problem)

    def _tell(self, problem: str) -> None:
        if problem and problem != self._told:
            _log.error("tls", error=problem)
        self._told = problem

    def _refuse_if_unusable(self, *_: Any) -> int | None:
        """End a handshake before anything is served; OpenSSL asks at each."""
        # Not the alert of an expired certificate: that is what is said of the other end's.
        return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR if self.problem else None


class _Handshake(ssl.SSLObject):
    """The answering end of one handshake: says why it fails, in the log and to the caller.

    asyncio and uvloop drop what TLS would still send when a handshake fails, and log nothing. So a failure is first
    told to them as "more is to be read", whereupon they send the alert; it is raised when the caller has answered or
    gone. Who does not speak TLS would wait for nothing, and is hung up on at once.
    """

    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Shake hands, or raise as `ssl.SSLObject` does."""
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise
        except ssl.SSLError as error:
            self._failure = error
            if (left_out := _refusals.spend()) is not None:
                why = getattr(error, "verify_message", None) or error.reason or str(error)
                _log.warning("a caller is refused by TLS", error=why, left_out=left_out)
            if error.reason in _NO_TLS:
                raise
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "an alert is to be sent") from error


def tls_of(cert: str, key: str, ca: str) -> Tls | None:
    """Return what the settings name, None if they name nothing.

    Raises Refused `settings_invalid`, `tls_files_invalid`.
    """
    files = files_of(cert, key, ca)
    return None if files is None else Tls(files)


def session(tls: Tls | None, **more: Any) -> aiohttp.ClientSession:
    """Return a session for calls of our own processes; with None it calls http:// alone, as far as they are ours."""
    connector = aiohttp.TCPConnector(ssl=tls.client) if tls is not None else None
    return aiohttp.ClientSession(connector=connector, **more)


def role_of(peercert: Mapping[str, Any]) -> str:
    """Return the role in a certificate that was verified: its organizational unit; "" if it has none."""
    for name in peercert.get("subject", ()):
        for field, value in name:
            if field == "organizationalUnitName":
                return str(value)
    return ""


def read_certificate(pem: bytes, path: Path) -> x509.Certificate:
    """Return the first certificate of a PEM file; raises Refused `tls_files_invalid`."""
    try:
        return x509.load_pem_x509_certificates(pem)[0]
    except ValueError as error:
        raise Refused("tls_files_invalid", f"{path} holds no certificate; {RENEW}") from error


def problem_of(certificate: x509.Certificate, where: str, *, soon: timedelta = timedelta(0)) -> str:
    """Say why a certificate may not be used now, or not for `soon` longer; "" if it may."""
    now = datetime.now(UTC)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begins:
        return f"the certificate {where} is not valid before {begins:%Y-%m-%d %H:%M} UTC; see the clock, or {RENEW}"
    if now >= ends:
        return f"the certificate {where} has expired at {ends:%Y-%m-%d %H:%M} UTC; {RENEW}"
    if now + soon >= ends:
        return f"the certificate {where} expires at {ends:%Y-%m-%d %H:%M} UTC; {RENEW}"
    return ""


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _load(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    """Load a chain and its key from memory: `ssl` takes names of files only, and files may change between two looks."""
    handles = []
    try:
        for content in (cert, key):
            handle = os.memfd_create("hongbao-tls", os.MFD_CLOEXEC)
            handles.append(handle)
            os.write(handle, content)
        chain, key_file = (f"/proc/self/fd/{handle}" for handle in handles)
        # With a password, so that nobody is asked for one: the key has none.
        context.load_cert_chain(chain, key_file, password="")
    finally:
        for handle in handles:
            os.close(handle)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused("tls_files_invalid", f"{path} cannot be read: {error.strerror}") from error
