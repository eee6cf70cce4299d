"""Files on this machine: locks, private files, packed tables and Parquet read in batches."""
