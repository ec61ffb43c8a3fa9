"""The plan of a run: its configuration, data, model, algorithm and batches.

Also here: the look at unknown data that proposes a first configuration, and remedies in terms of
settings. Only the moves before a first step are fitted here; nothing here knows a run's folder.
"""
