"""What a fitted model says of data: draws, predictions, values at given globals."""
