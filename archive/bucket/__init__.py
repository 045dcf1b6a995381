"""An archive in an object store: what its objects are called, how one is published, and how DuckDB reads it by range.

What lives here: `layout` (names), `signed` (a manifest, and the hashes of its files' blocks), `publication` (put, find,
discard), `files` (the file system that DuckDB reads through), `remote` (one archive, opened), `in_bucket` (all of it as
`archive.store` asks for it).

**Why it is safe.** Every object is named by the digest of its manifest, so that an object is never replaced by another
one: an archive written anew stands beside the old one, and the register says which of them counts. The manifest goes up
last, and only where there is none of its name (If-None-Match): without it the files are nobody's. A block of a file is
believed if it has the SHA-256 that the signed manifest object says; so one row group is read without reading the file.

May import: what the archive may, and `objectstore`. Errors: those of the archive's and of `objectstore`'s plate.
"""
