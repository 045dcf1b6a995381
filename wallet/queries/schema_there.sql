-- Whether the migration has been applied; asked once per connection. Index: none. Lock: none.
SELECT to_regclass('transfer') IS NOT NULL AND to_regclass('fund') IS NOT NULL
