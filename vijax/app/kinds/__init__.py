"""Kinds of data and of models on the command line, and what is known of each."""
