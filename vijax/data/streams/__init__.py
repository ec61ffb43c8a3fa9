"""Data that no memory need hold: rows in Parquet files, and batches that come from elsewhere."""
