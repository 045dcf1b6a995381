"""Backups in an object store: base copies, each an object with a manifest that is put last, and the log by segments.

What lives here: `manifest` (what says that a copy is whole), `shelf` (what is in the bucket for one server: put,
listed, fetched, removed), `shipper` (puts the log while it is received), `unput` (what of it is not put yet, and since
when), `tar` (a cluster's folder as one stream, and safely back), `remote_backups` (take, receive, restore by way of a
work folder). Postgres' programs write folders, so everything passes through one: `backup.folder`.

    s3://bucket/prefix/set-1/cluster.json                  which cluster this is of; put once
    s3://bucket/prefix/set-1/base/20261121T101500Z-9f3ac01d22e4b57a.tar     a copy, in parts, named by its content
    s3://bucket/prefix/set-1/base/20261121T101500Z.json    its manifest: without it the copy does not count
    s3://bucket/prefix/set-1/wal/0000000100000000000000A7  a segment, put when it is complete

Promise: no object is replaced but the newest segment's `.partial`, and that by nothing that has less of it; a copy that
is half up, or half removed from the work folder, is none. What a bucket holds is checked when it comes back: the copy's
SHA-256, the names in it, the cluster's identifier. It is not signed: who may write to the bucket can give a restore
another cluster, which the audit then judges. Tests: tests/integration/objects/test_backup_in_bucket.py,
test_log_in_bucket.py.
"""
