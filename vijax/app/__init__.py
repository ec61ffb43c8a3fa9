"""The program behind `vijax fit`: configurations, the catalogue of models, runs and their folders, pages.

Wrong input raises `ConfigError`, a ValueError whose message names the setting, option or file, what was expected, what
came, and the remedy. A damaged file of a run raises its subclass `DamagedError`. Docstrings here do not repeat this.
"""
