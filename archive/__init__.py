"""What is stored cold (floor 4): Parquet files of one database and business date, their signed manifest, reading them.

`tables` says which columns an archive has and the one form in which rows travel and are hashed; `place` where an
archive lies and how it gets there in one step; `manifest` what is signed; `export` writes, `verify` reads back and
compares with Postgres, `restore` puts a date beside the hot one; `register` reads what became of the days (`states`),
`details` one envelope and `stream` all rows in order; `keeper` is what the rotation asks for; `view` gives SQL over all
of it; `threads` is for what blocks.
DuckDB is imported by `engine` and nowhere else, when needed.

May import: `wire`, `schema`, `sharding`, `runtime`, `envelope`. Promise: an archive is there whole and signed, or it is
not there; nothing read from it is trusted before its files match its manifest. Fails by Refused with a stable code
(`archive_missing`, `archive_forged`, `archive_corrupt`, `archive_differs`, `archive_not_written`, `archive_key_weak`).
"""
