"""Tables made from a run: draws, predictions, scores and shares, row by row."""
