"""Answers from a run that has been fitted: results, shares, the quality of a fit, comparisons of
runs.

They are made of a folder, by a command or at the end of a run. Nothing here lays out a page or
takes a step."""
