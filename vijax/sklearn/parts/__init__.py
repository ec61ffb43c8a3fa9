"""Parts that several estimators share."""
