"""Predictions of a fitted model: draws, inferred locals, values at given globals."""
