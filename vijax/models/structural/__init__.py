"""Topics with covariates of the documents: the structural topic model, and effects on shares."""
