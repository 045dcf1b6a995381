"""DSNs of Postgres, with one host or several: `postgresql://user@h1:5432,h2:5432/db?target_session_attrs=read-write`.

Several hosts are those of one cluster, a primary and its standbys. With `target_session_attrs=read-write` whoever
connects tries each in turn and takes the one that can write: after a failover that is another one, and no setting
changes. With `sslmode=verify-full&sslrootcert=FILE` the server must show a certificate of a CA in FILE for the host
that is named; every process and command that connects goes by it, Postgres' own programs too.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

PORT = 5432
_NOT_ENCODED: Final = (
    "is no DSN, postgresql://USER:PASSWORD@HOST:PORT/DATABASE: percent-encode what is special in it (# is %23, "
    "/ %2F, ? %3F, @ %40, : %3A, [ %5B, ] %5D, % %25), and write the port in digits"
)
_TLS: Final[Mapping[str, str]] = {
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslcrl": "PGSSLCRL",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
}
"""Parameters of TLS, and the variables by which libpq knows them."""
_is_host = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]{1,5})?").fullmatch


def wrong_dsn(dsn: str) -> str:
    """Return what is wrong with a DSN, for a sentence that begins with where it stands; "" if nothing.

    Nothing of the DSN is in the sentence. A password that holds `#`, `/` or `?` as it is ends the part of the address:
    its beginning would be taken for the host, which is shown and logged.
    """
    try:
        parts = urlsplit(dsn)
        places = parts.netloc.rpartition("@")[2].split(",")
    except ValueError:  # brackets, or letters that are other ones in a host's name
        return _NOT_ENCODED
    beyond = "#" in dsn or "@" in parts.path or "@" in parts.query
    return _NOT_ENCODED if beyond or not all(_is_host(one) for one in places) else ""


def hosts(dsn: str) -> list[tuple[str, int]]:
    """Return the hosts of a DSN with their ports, in order."""
    found = []
    for one in _host_list(dsn).split(","):
        host, separated, port = one.rpartition(":")
        if separated and port.isdecimal() and not host.endswith(":"):
            found.append((host.strip("[]"), int(port)))
        else:
            found.append((one.strip("[]"), PORT))
    return found


def each(dsn: str) -> list[str]:
    """Return a DSN for each host, in order; all else of it stays."""
    login, at, _ = urlsplit(dsn).netloc.rpartition("@")
    return [urlunsplit(urlsplit(dsn)._replace(netloc=f"{login}{at}{one}")) for one in _host_list(dsn).split(",")]


def at_host(dsn: str, host: str) -> str:
    """Return the DSN for one host, HOST:PORT, whether it is a primary or a standby; all else stays."""
    parts = urlsplit(dsn)
    login, at, _ = parts.netloc.rpartition("@")
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "target_session_attrs"]
    return urlunsplit(parts._replace(netloc=f"{login}{at}{host}", query=urlencode(query)))


def wanted(dsn: str) -> str:
    """Return which host of a cluster a DSN asks for: "any", if it does not say, or "primary" for "read-write".

    What is "read-write" is also asked of the session: one that begins its transactions read-only would find no host.
    """
    found = dict(parse_qsl(urlsplit(dsn).query)).get("target_session_attrs", "any")
    return "primary" if found == "read-write" else found


def place(dsn: str) -> str:
    """Return where a DSN leads, for people: HOST:PORT, or several of them; nothing of a DSN that is wrong."""
    if wrong_dsn(dsn):
        return "an address that cannot be read"
    return ", ".join(f"{host}:{port}" for host, port in hosts(dsn))


def password_of(dsn: str) -> str | None:
    """Return the password that a DSN holds; None if it holds none."""
    login, separated, _ = urlsplit(dsn).netloc.rpartition("@")
    _, colon, password = login.partition(":")
    return unquote(password) if separated and colon else None


def with_login(dsn: str, user: str, password: str) -> str:
    """Return the DSN for another login; hosts, database and parameters stay."""
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return urlunsplit(urlsplit(dsn)._replace(netloc=f"{login}@{_host_list(dsn)}"))


def with_database(dsn: str, database: str) -> str:
    """Return the DSN for another database; hosts, login and parameters stay."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{quote(database, safe='')}"))


def tls_environment(dsn: str) -> dict[str, str]:
    """Return the variables with which a program of Postgres speaks TLS as the DSN says; none if it says nothing."""
    return {_TLS[name]: value for name, value in parse_qsl(urlsplit(dsn).query) if name in _TLS}


def _host_list(dsn: str) -> str:
    return urlsplit(dsn).netloc.rpartition("@")[2]
