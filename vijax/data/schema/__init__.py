"""Columns and what each is, decided once: names of levels, typed columns of any table, and the
schema that a fit keeps.

Every reader of tables turns its cells into these. Nothing here guesses from rows that come after
training."""
