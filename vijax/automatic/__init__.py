"""The automatic method (`vijax.auto`, `vijax.dadvi`): searches, normals and mixtures fitted on the
host in float64.

What is said of the fits is in `verdict`. The steps of `vijax.fit` and the models do not belong
here."""
