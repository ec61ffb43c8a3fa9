"""One step, composed of choices: `compose`, the step, the bound, the state; and the choices
themselves.

E-steps, estimands, estimators, updates and step sizes are here. Nothing here reads files, loops
over data or names a model."""
