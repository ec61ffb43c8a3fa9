"""Parts that several estimators share.

Parts of a single estimator are in its own module, in the folder above.
"""
