"""Predictions of a fitted model: draws, locals, and values at given globals.

They draw from q and call the functions of the model (`Model.queries`). The room `evaluate` judges
predictions."""
