"""Parts that several estimators share.

What one estimator alone needs stands beside it, in the folder above.
"""
