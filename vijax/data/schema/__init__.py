"""Columns and their kinds, decided once: names of levels, typed columns of any table, and the schema
of a fit.

Every reader of tables turns its cells into these. Nothing here is guessed from rows after training.
"""
