"""Runs: started, resumed and brought to their end; sweeps, runs of several processes, and checks of
finished runs.

This floor puts the others together. What one of them can do alone is not here, and the words of the
command line are in `cli`.
"""
