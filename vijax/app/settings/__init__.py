"""Settings as they are read and written: typed TOML, sections, options from constructors, units,
code of the user.

Also here: lines that all commands show (progress, banners, the guide). Nothing here knows a model
of the catalogue, reads data, or knows a run's folder.
"""
