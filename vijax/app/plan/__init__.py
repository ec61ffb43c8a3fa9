"""The plan of a run, before it begins: its configuration, and the data, model, algorithm and
batches of it.

The look at unknown data that proposes a first configuration is here, and remedies in words of
settings. Nothing here fits, but the moves before a first step; nothing knows the folder of a run.
"""
