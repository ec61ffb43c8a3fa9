"""The step of every algorithm (`compose`, `move`, `bound`, `state`), and its choices: E-steps,
estimands, estimators, updates and step sizes.

Nothing here reads files, loops over data or names a model."""
