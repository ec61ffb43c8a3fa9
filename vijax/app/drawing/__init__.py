"""Blocks of a page, and how each is drawn: on the page, as a picture, as text and as CSV.

Everything is made from the plain numbers of a block. Nothing here knows settings, data or a model;
listings decide which blocks a model has.
"""
