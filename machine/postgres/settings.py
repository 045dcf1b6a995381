"""The settings of the Postgres servers that we start: durable, modest in memory, quick to recover."""

from collections.abc import Mapping

from machine.postgres.binaries import Binaries

SETTINGS: Mapping[str, str] = {
    # A commit is answered once it is on disk.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # DDL over a day locks each of its leaves; the default is too small for a few hundred.
    "max_locks_per_transaction": "2048",
    # A silent login holds a process for this long, a minute unless it is set.
    "authentication_timeout": "5s",
    # Of these three are kept for the superuser, and RESERVED for the audit.
    "max_connections": "64",
    "shared_buffers": "128MB",
    "huge_pages": "try",
    # Rare checkpoints: after each one the first change of a page logs the whole page.
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    # All commits wait while a new log file is made; filling it with zeroes takes long (docs/decisions/0015).
    "wal_init_zero": "off",
    # A live move of a database to another SET is logical replication.
    "wal_level": "logical",
    # An abandoned backup or move must not fill the disk with the log that is retained for it.
    "max_slot_wal_keep_size": "8GB",
    # Statements are short and planned often: compiling them costs more than it gains.
    "jit": "off",
    "autovacuum": "on",
    "listen_addresses": "127.0.0.1",
    # A socket folder would need a short path that the server's account can write to.
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%a %u@%d ",
}

RESERVED = 4
"""Connections for roles with pg_use_reserved_connections (the audit): it can look when all others are taken."""
RESERVED_SINCE = 16
"""The major version of Postgres that can reserve them."""


def settings_of(binaries: Binaries, port: int, more: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a server; `more` overrides SETTINGS."""
    settings = {**SETTINGS, "port": str(port)}
    if binaries.major >= RESERVED_SINCE:
        settings["reserved_connections"] = str(RESERVED)
    if binaries.has_lz4():
        settings["wal_compression"] = "lz4"
    if binaries.has_pg_stat_statements():
        # `dba` shows slow statements from it.
        settings["shared_preload_libraries"] = "pg_stat_statements"
        # Utility statements would be stored with their text, and that of a subscription has a password in it.
        settings["pg_stat_statements.track_utility"] = "off"
    return {**settings, **more}


def render_conf(settings: Mapping[str, str]) -> str:
    """Return the text of the configuration file."""
    return "".join(f"{name} = {_quoted(value)}\n" for name, value in settings.items())


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
