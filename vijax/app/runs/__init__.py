"""Runs: begun, gone on with, seen to their end; sweeps, runs of several processes, and checks of
finished ones.

This floor puts the others together. What one of them can do alone does not belong here; what is
said on the command line belongs to `cli`."""
