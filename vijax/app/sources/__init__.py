"""Kinds of data, and how a run reads them: documents, tables, graphs, ratings; and the contents of
a model's `Listing`.

Also here: names of topics, and tables of shares by document, as they are read. Nothing here knows
the models; rules that hold outside the command line are in `vijax.data`.
"""
