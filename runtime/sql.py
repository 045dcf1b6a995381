"""SQL statements by room and name: `read("wallet", "post")` is the text of `wallet/queries/post.sql`.

Each file says what its statement means, which index it uses and what it locks; Postgres receives these comments, too,
and shows them in pg_stat_activity and its log.
"""

from importlib.resources import files


def read(room: str, name: str) -> str:
    """Return the text of `room`'s statement `name`; called once per statement, at import."""
    return (files(room) / "queries" / f"{name}.sql").read_text(encoding="utf-8")
