"""The automatic method (`vijax.auto`, `vijax.dadvi`): searches, fits on the host in float64, and the verdict.

Sentences are in `verdict`, those on fits by steps in `by_steps`. The steps of `vijax.fit` and the models do not belong
here.
"""
