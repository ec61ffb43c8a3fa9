"""Answers from a fitted run: results, shares, the quality of a fit, comparisons of runs.

They are made from a folder, by a command or at the end of a run. Nothing here lays out a page or
fits.
"""
