"""Files: opening, downloading and caching them, and errors that name the file.

The contents of files are read elsewhere: cells in `tables`, words in `texts`, counts in `corpora`.
No other folder opens a user's files."""
