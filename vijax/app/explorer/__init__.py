"""The part of a run's page on which topics are explored: what it embeds (`embedded`), and its frame (`frame`).

What a click does is in the files of script beside this one, which are put into the page; they fetch nothing.
"""
