"""Models of your own: a log joint written as an energy, or any log density of free variables.

What a user writes becomes a model here, is tried at an example, and is checked. Models that come
with vijax are in the other folders."""
