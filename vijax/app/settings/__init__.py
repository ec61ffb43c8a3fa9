"""Settings of a run: configuration files, their sections, and the origin of each value."""
