"""Results of a fitted model row by row, predictions, forecasts, draws.

Tables are made here and written, for data that are read. Nothing here knows one model, or the
folder of a run."""
