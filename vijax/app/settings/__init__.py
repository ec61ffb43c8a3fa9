"""Settings as they are read and written: typed TOML, sections, options from constructors, units,
code of the user.

Lines that every command shares on the screen are here too: progress, banners, the guide. Nothing
here knows a model of the catalogue, reads data, or knows the folder of a run."""
