"""Kinds of data and of models on the command line: sections, loading, building, shared parts of pages."""
