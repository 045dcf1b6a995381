"""What is stored cold: the Parquet files of one database and business date, their signed manifest, and reading them."""
