"""Results of a fitted model row by row: predictions, forecasts, draws.

Tables of results are made and written here, for data that have been read. Nothing here knows a
model, or the folder of a run.
"""
