"""Backup: base copies of a server and the log since, and a restore to any instant that they reach (floor 7).

What lives here: `folder`, what a backup is on disk and which instants it reaches; `backups`, taking a base copy and
restoring; `choice`, which copy a restore takes and which copies and log may go; `retention`, removing these;
`logkeeper`, receiving a server's log as it is written and saying how it stands; `bucket/`, the same in an object store;
`programs`, Postgres' own programs (pg_basebackup, pg_verifybackup, pg_receivewal), which do the work; `recovery_point`,
the last commit that a restored cluster has. A server is a SET's Postgres or the wallet's.

Authority. The folder or the bucket alone: a base copy counts once it is verified and renamed (`BackupFolder.seal`), in
a bucket once its manifest is put; its log is whole if no segment is missing after it (`gap_after`). What the server
still keeps is its replication slot's word (`log_state`).

Promise: nothing here writes to the running server but its replication slot; a restore makes a cluster in a folder of
its own. A restore to an instant that the copies and the log do not reach is refused, it does not end earlier. Killed
anywhere, taking and receiving begin again; a restore that fails leaves its log alone. Tests:
tests/faults/test_backup.py, test_backup_log.py.

How it fails: Refused `no_backup`, `backup_of_another`, `log_has_a_hole`, `log_ends_before`, `log_unreadable`,
`log_lost`, `disk_full` …, and `backup_runs`, `log_already_kept`, `folder_taken` if another process is at work;
Unavailable `backup_failed`.

A restore needs the backups and the server's passwords, no running server (`test_a_restore_needs_files_only`). What
`retention` removes takes no instant away from a copy that stays (`test_what_is_kept_restores_as_before`).

Not promised: a restored copy may be behind the wallet: an audit tells. The archive is not backed up here: `hongbao
archive copy` does that; after a drop no other copy of it exists.

May import: `schema`, `machine`, `objectstore`, `runtime`, `errors`. Operators: docs/operations/backup.md.
"""
