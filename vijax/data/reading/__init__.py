"""Files: opening, downloading and keeping them, and errors that name the file.

What is in a file is read elsewhere: cells in `tables`, words in `texts`, counts in `corpora`. No
other folder opens a file of a user's."""
