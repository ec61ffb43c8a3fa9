"""Tables and graphs: columns by name, from files and from objects in memory.

Cells are read here; the kind of each column is decided in `schema`.
"""
