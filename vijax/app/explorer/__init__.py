"""The part of a run's page on which topics are explored: its embedded data (`embedded`), and its frame (`frame`).

The files of script beside this one handle clicks; they are put into the page, and fetch nothing.
"""
