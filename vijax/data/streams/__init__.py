"""Data that need not fit in memory: rows in Parquet files, and batches from elsewhere.

A source gives batches or rows in turn, as a function of the seed and the step. `vijax.data.loader`
deals data that fit in memory."""
