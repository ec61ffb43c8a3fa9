"""Data that no memory need hold: rows in Parquet files, and batches that come from elsewhere.

A source gives batches or rows in turn, as a function of the seed and the step. What fits in memory
is dealt by `vijax.data.loader`."""
