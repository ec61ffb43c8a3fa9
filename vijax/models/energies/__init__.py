"""Models of one's own: a log joint written as an energy, or any log density of free variables."""
