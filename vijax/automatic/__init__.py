"""The automatic method (`vijax.auto`, `vijax.dadvi`): searches for modes, and normals and
mixtures, fitted on the host in float64.

Sentences on these fits are in `verdict`. The steps of `vijax.fit` and the models do not belong
here."""
