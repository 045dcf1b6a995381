"""Certificates of an installation: its own CA, made once, and a certificate for each process, by that CA.

They lie in the folder `certificates` of the data folder, 0600: `ca.pem`, which every process gets; `ca.key`, which none
gets and which need not stay on the machine; and for each name `NAME.pem`, its key and its certificate in one file, so
that both are replaced in one step. A process reads its file again by itself (`runtime.tls`).

A certificate names its role (organizational unit), which a server compares with the key that its caller proves, and the
hosts at which it may be called. Gateways and operators get none that a server could show. Keys are P-256.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from errors import Refused
from runtime.clock import Clock, SystemClock
from runtime.files import replace_private
from runtime.tls import TlsFiles, read_certificate
from sharding.topology import SetSpec
from wire.keys import GATEWAY, OPERATOR, SETNODE, WALLET

TLS_SETTINGS: Final = ("HONGBAO_TLS_CERT", "HONGBAO_TLS_KEY", "HONGBAO_TLS_CA")
"""Variables of a process; commands take them, too."""
CA_CERT, CA_KEY = "ca.pem", "ca.key"
CA_DAYS: Final = 3_650
DAYS: Final = 365
MOST_DAYS: Final = 3_650
RENEW_DAYS: Final = 30
"""A certificate that ends within so many days is made anew, and `doctor` warns."""
SKEW: Final = timedelta(hours=1)
"""A certificate is valid from so long before it was made: the clocks of hosts differ."""
_HOST = re.compile(r"(?=.{1,253}$)[0-9A-Za-z_]([0-9A-Za-z_-]{0,62})(\.[0-9A-Za-z_-]{1,63})*", re.ASCII)
OTHER: Final = "server"
"""The role of a server that is no process of ours: a Postgres."""


@dataclass(frozen=True)
class Wanted:
    """A certificate: its name, its role, and at which hosts it may be called; none for one that only calls."""

    name: str
    role: str
    hosts: tuple[str, ...] = ()

    @property
    def calls(self) -> bool:
        """Whether it may be shown by a caller: the wallet and servers of others call none of our processes."""
        return self.role not in (WALLET, OTHER)


@dataclass(frozen=True)
class Made:
    """What became of a certificate. `made`: anew, not kept as it was."""

    wanted: Wanted
    path: Path
    until: datetime
    made: bool


class Certificates:
    """The folder of an installation's certificates."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()

    def files(self, name: str, kind: str = "") -> TlsFiles | None:
        """Return the files for the process `name`, or for all of its kind; None if there are none."""
        for one in filter(None, (name, kind)):
            path = self.folder / f"{one}.pem"
            if path.exists():
                return TlsFiles(path, path, self.folder / CA_CERT)
        return None

    def settings(self, name: str, kind: str = "") -> dict[str, str]:
        """Return the HONGBAO_TLS_* variables of a process; none if it has no certificate here."""
        files = self.files(name, kind)
        if files is None:
            return {}
        return dict(zip(TLS_SETTINGS, map(str, (files.cert, files.key, files.ca)), strict=True))

    def bring(self, source: "Certificates", processes: Iterable[tuple[str, str]]) -> None:
        """Copy from `source` what processes show, each by name and kind, and the CA's certificate; never its key."""
        found = [files for name, kind in processes if (files := source.files(name, kind)) is not None]
        if found and not self.folder.exists():
            self.folder.mkdir(mode=0o700)
        for path in {path for files in found for path in (files.cert, files.ca)}:
            replace_private(self.folder / path.name, path.read_bytes())

    def names(self) -> Iterator[Path]:
        """Yield the files of all certificates, that of the CA first."""
        ca = self.folder / CA_CERT
        yield from [ca] if ca.exists() else []
        yield from sorted(one for one in self.folder.glob("*.pem") if one != ca)

    def ensure(self, wanted: Iterable[Wanted], *, days: int = DAYS, anew: bool = False) -> list[Made]:
        """Make the CA if there is none, and each certificate that is missing, ends soon, or is for others.

        Durable on return. Raises Refused `certificate_invalid` for a host that is none, or so many days;
        `ca_key_missing`; `tls_files_invalid`; `ca_ends`. No certificate outlives its CA.
        """
        if not 1 <= days <= MOST_DAYS:
            raise Refused("certificate_invalid", f"a certificate is valid for 1 to {MOST_DAYS} days, not {days}")
        asked = [(one, _names_of(one.hosts)) for one in wanted]
        if not self.folder.exists():
            self.folder.mkdir(mode=0o700)
            self._give_to_owner(self.folder)
        ca, key = self._ca()
        left = (ca.not_valid_after_utc - self._clock.now()).days
        if left < RENEW_DAYS:
            raise Refused(
                "ca_ends",
                f"{self.folder / CA_CERT} ends on {ca.not_valid_after_utc:%Y-%m-%d}, and what it signs ends with it: "
                'replace it as docs/operations/certificates.md says, "Before they end"',
            )
        days = min(days, left)
        return [self._one(one, names, ca, key, days, anew=anew) for one, names in asked]

    def _ca(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        cert_path, key_path = self.folder / CA_CERT, self.folder / CA_KEY
        if not cert_path.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            subject = _subject("ca", "hongbao CA")
            cert = (
                _begun(subject, subject, key.public_key(), self._clock.now(), CA_DAYS)
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(_usage(signs_certificates=True), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .sign(key, hashes.SHA256())
            )
            # The key first: a certificate without its key could sign nothing, and would never be made anew.
            self._write(key_path, _pem_of(key))
            self._write(cert_path, cert.public_bytes(serialization.Encoding.PEM))
        try:
            loaded = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
        except OSError as error:
            raise Refused(
                "ca_key_missing",
                f"{key_path} cannot be read ({error.strerror}): bring it back from where it is kept, or move "
                f"{self.folder} away to begin with another CA",
            ) from error
        except (ValueError, TypeError) as error:
            raise Refused(
                "tls_files_invalid", f"{key_path} is no key of a CA; bring it back from where it is kept"
            ) from error
        ca = read_certificate(cert_path.read_bytes(), cert_path)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey) or loaded.public_key() != ca.public_key():
            raise Refused("tls_files_invalid", f"{key_path} is not the key of {cert_path}")
        return ca, loaded

    def _one(
        self,
        one: Wanted,
        names: Sequence[x509.GeneralName],
        ca: x509.Certificate,
        ca_key: ec.EllipticCurvePrivateKey,
        days: int,
        *,
        anew: bool,
    ) -> Made:
        path = self.folder / f"{one.name}.pem"
        if not anew and path.exists():
            found = read_certificate(path.read_bytes(), path)
            if _is_as_wanted(found, one, names, ca, self._clock.now()):
                return Made(one, path, found.not_valid_after_utc, made=False)
        key = ec.generate_private_key(ec.SECP256R1())
        cert = _signed(one, names, key.public_key(), ca, ca_key, self._clock.now(), days)
        self._write(path, _pem_of(key) + cert.public_bytes(serialization.Encoding.PEM))
        return Made(one, path, cert.not_valid_after_utc, made=True)

    def _write(self, path: Path, content: bytes) -> None:
        replace_private(path, content)
        self._give_to_owner(path)

    def _give_to_owner(self, path: Path) -> None:
        """Give a file that root makes to the owner of the data folder, whose processes read it."""
        if os.geteuid() == 0:
            owner = self.folder.parent.stat()
            os.chown(path, owner.st_uid, owner.st_gid)


def wanted_of(sets: Iterable[SetSpec], wallet_url: str, gateways: Iterable[str] = (GATEWAY,)) -> list[Wanted]:
    """Return a certificate for each process, with the host of its URL if it is called; one for operators."""
    servers = [
        Wanted(server.name, f"{SETNODE}/{one.name}", (str(urlsplit(server.url).hostname),))
        for one in sets
        for server in one.servers
    ]
    wallet = Wanted(WALLET, WALLET, (str(urlsplit(wallet_url).hostname),))
    return [*servers, wallet, *(Wanted(name, GATEWAY) for name in gateways), Wanted(OPERATOR, OPERATOR)]


def with_hosts(wanted: Iterable[Wanted], more: Mapping[str, Sequence[str]]) -> list[Wanted]:
    """Add host names; a name that is no process of ours becomes a server of another kind, such as a Postgres.

    Raises Refused `certificate_invalid` for hosts of a process that nobody calls by TLS, and for a name that is none.
    """
    left = dict(more)
    found = []
    for one in wanted:
        hosts = tuple(left.pop(one.name, ()))
        if hosts and not one.hosts:
            raise Refused("certificate_invalid", f"{one.name} only calls: its certificate is for no host")
        found.append(Wanted(one.name, one.role, tuple(dict.fromkeys((*one.hosts, *hosts)))))
    for name, some in left.items():
        if name in ("ca", "") or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise Refused("certificate_invalid", f"{name!r} is no name of a certificate: letters, digits, '-' and '_'")
        found.append(Wanted(name, OTHER, tuple(some)))
    return found


def _names_of(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Return addresses as such, all else as names; raises Refused `certificate_invalid`."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ip_address(host)))
            continue
        except ValueError:
            pass
        if not _HOST.fullmatch(host):
            raise Refused("certificate_invalid", f"{host[:80]!r} is no host name and no address")
        names.append(x509.DNSName(host))
    return names


def _is_as_wanted(
    found: x509.Certificate, one: Wanted, names: Sequence[x509.GeneralName], ca: x509.Certificate, now: datetime
) -> bool:
    """Say whether a certificate is by this CA, for this role and these hosts, and does not end soon."""
    try:
        found.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    try:
        has = list(found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        has = []
    stays = found.not_valid_after_utc - now > timedelta(days=RENEW_DAYS) and found.not_valid_before_utc <= now
    return stays and found.subject == _subject(one.role, one.name) and has == list(names)


def _signed(
    one: Wanted,
    names: Sequence[x509.GeneralName],
    public: ec.EllipticCurvePublicKey,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: int,
) -> x509.Certificate:
    uses = [
        *([ExtendedKeyUsageOID.SERVER_AUTH] if names else []),
        *([ExtendedKeyUsageOID.CLIENT_AUTH] if one.calls else []),
    ]
    built = (
        _begun(_subject(one.role, one.name), ca.subject, public, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    if names:
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return built.sign(ca_key, hashes.SHA256())


def _begun(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    now = now.replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _subject(role: str, name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "hongbao"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
