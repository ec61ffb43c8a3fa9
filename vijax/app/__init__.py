"""The program behind `vijax fit`, in floors that use those below them (tests/house/test_rooms.py).

settings < drawing < sources < rows < catalogue < plan < folder
folder < answers < report < runs < commands < cli

Wrong input raises `ConfigError`, a ValueError whose message names the setting, option or file, what
was expected, what came, and the remedy. A damaged file of a run raises its subclass `DamagedError`.
Docstrings here do not repeat this."""
