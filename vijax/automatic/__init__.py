"""The automatic method (`vijax.auto`, `vijax.dadvi`): searches, fits on the host in float64, and the verdict.

Sentences are in `verdict` and `verdict_of_steps`; nothing of the engine or of models is decided here.
"""
