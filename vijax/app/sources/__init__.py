"""Kinds of data, and how a run reads them: documents, tables, graphs, ratings; and what a `Listing`
of a model says.

The names of topics and the tables of shares by document are here, as things that are read. Nothing
here knows which models there are; rules that hold outside the command line belong to `vijax.data`.
"""
