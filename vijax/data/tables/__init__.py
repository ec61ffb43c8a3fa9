"""Tables and graphs: columns by name, from files and from objects in memory.

Cells are read here as they stand; which column is what is decided in `schema`.
"""
