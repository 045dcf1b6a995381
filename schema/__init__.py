"""What is stored (floor 3): DDL, table names, migrations, the day tables made ahead.

`set.sql` and `wallet.sql` are the schema to read; the numbered files in `set/` and `wallet/` are the migrations that
lead there, and a test proves that both give the same. `names` is the one place that builds identifiers, from digits
only. `day_tables` makes the partitions of coming days and refuses a name that still holds last month's rows.

May import: `sharding`, `envelope`, `runtime`. Promise: what the rules of `envelope` forbid, the constraints here
forbid again, so that wrong code above can stop the system but not bend the money.
"""
