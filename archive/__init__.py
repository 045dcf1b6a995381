"""The archive (floor 4): Parquet files of one database and business date each, with a signed manifest.

What lives here: `tables` (columns and canonical rows), `store` (where archives are, whichever kind of place), `kept_in`
(what it asks of a place), `in_folder` with `place` (publication) and `settling` (after a kill), `bucket/` (an object
store), `copying` (from one place to another), `known` and `standing` (which archives are ours to replace), `manifest`
(what is signed), `export` (writes an archive), `verify` (compares it with Postgres), `restore` (puts a date beside the
hot tables), `register` and `states` (what became of each day), `details` (reads one envelope), `stream` (reads all rows
in order), `view` (SQL over all days), `of_user` and `rename` (what has a user's name; the same without it), `adapter`
(export and verify, for the rotation), `pipes` and `threads` (rows between COPY and DuckDB), `limits`, `engine` (DuckDB,
imported nowhere else).

May import: `schema`, `sharding`, `objectstore`, `runtime`, `errors`.

**Authority.** While a day's tables exist, they are authoritative and an archive can be written again. Once the register
says `dropped`, the archive is the only copy; the register holds the digest of its manifest.

**Promise.** An archive is there complete and signed, or it is not there: in a folder it is written apart, fsynced, and
renamed; in an object store its manifest goes up last. What is said of files below holds there for blocks of them, each
checked as it is read (`test_what_was_changed_behind_us_is_refused`).
`details`, `restore`, `verify` and the audit check the signature and the hashes of the files before they use a row, all
but `restore` also that the manifest is the one that the register names. `view` checks signatures and sizes of files,
and that every archive of the registers is there; hashes of files only if that is asked for (`query --verify`). An
archive that was spoilt is written anew only if the tables still hold the rows that were exported
(`test_a_spoilt_archive_is_not_cured_from_changed_rows`). None is replaced or removed that no register or operation log
here has named (`test_another_installation_keeps_its_days`).

**How it fails.** Refused with a stable code: `archive_missing`, `archive_forged` (not signed with this key, or not the
manifest that the register names), `archive_corrupt` (files or rows are not those of the manifest), `archive_differs`
(Postgres has other rows), `archive_of_another` (one that no register here has named stands in the place of ours),
`archive_not_written`, `archive_busy`, `archive_key_weak`; of an object store also the codes of `objectstore`.
Unavailable if Postgres is lost, or the store does not answer.
"""
