"""Files: opening, downloading and keeping them, and errors that name the file."""
