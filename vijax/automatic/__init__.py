"""The automatic method (`vijax.auto`, `vijax.dadvi`): searches, fits on the host in float64, and the verdict.

Sentences are in `verdict` and `verdict_of_steps`. The steps of `vijax.fit` and the models do not belong here.
"""
