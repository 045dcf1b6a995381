"""The settings of the Postgres servers that we start: durable, modest in memory, quick to recover."""

from collections.abc import Mapping

from cluster.machine.binaries import Binaries

SETTINGS: Mapping[str, str] = {
    # An answer means that it is on disk.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # DDL over a day of leaves locks each of them; the default fails at a few hundred.
    "max_locks_per_transaction": "2048",
    "max_connections": "60",
    "shared_buffers": "128MB",
    "huge_pages": "try",
    # Rare checkpoints: each makes every page it touches be logged in full once more.
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    # A new file of log is begun while all commits wait; to fill it with zeroes takes 20 to 80 ms (decision 15).
    "wal_init_zero": "off",
    # A day's move to another SET follows the log.
    "wal_level": "logical",
    # A backup or a move that was left must not fill the disk with log kept for it.
    "max_slot_wal_keep_size": "8GB",
    # Statements are short and planned often: compiling them costs more than it saves.
    "jit": "off",
    "autovacuum": "on",
    "listen_addresses": "127.0.0.1",
    # A socket folder would need a short path that the server's user may write.
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%a %u@%d ",
}


def conf(binaries: Binaries, port: int, more: Mapping[str, str]) -> str:
    """Return the text of a configuration file."""
    settings = {**SETTINGS, "port": str(port)}
    if binaries.knows_lz4():
        settings["wal_compression"] = "lz4"
    if binaries.counts_statements():
        # What the DBA's look at slow statements reads.
        settings["shared_preload_libraries"] = "pg_stat_statements"
        # Utility statements are kept word by word, with the password of a subscription in them. COPY is one.
        settings["pg_stat_statements.track_utility"] = "off"
    return "".join(f"{name} = {_quoted(value)}\n" for name, value in {**settings, **more}.items())


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
