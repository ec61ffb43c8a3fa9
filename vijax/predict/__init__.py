"""Predictions of a fitted model: draws, inferred locals, values at given globals.

They ask a model's own functions (`Model.queries`) and draw from q. Whether they are good is judged
in `evaluate`."""
