"""Postgres as we run it: a server and its folder, its roles, its log and its backups.

`postgres` is a running server on a `pgfolder` with our `pgsettings`; `roles` (passwords as `scram` verifiers) and
`migrations` make the database; `pgprograms`, `backups` and `logkeeper` keep base copies and the log that follows them.
"""
