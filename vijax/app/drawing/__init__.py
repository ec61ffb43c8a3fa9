"""Blocks of a page, and how each is drawn: on the page, as a picture, as text and as CSV.

Everything is made of plain numbers that a block holds. Nothing here knows settings, data or a
model, and which blocks a model has is not decided here."""
