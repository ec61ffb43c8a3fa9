"""The contract of models: `Model`, its variables, a batch of its data, its hyperparameters.

A model is written against these files alone. Nothing here fits anything.
"""
