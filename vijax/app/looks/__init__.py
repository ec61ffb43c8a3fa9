"""A look at some data before a run: which settings suit them."""
