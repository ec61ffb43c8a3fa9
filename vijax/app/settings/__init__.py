"""Settings of a run: configuration files, their sections, and where a value came from."""
