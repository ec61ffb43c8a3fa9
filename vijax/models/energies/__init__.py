"""Models of your own: a log joint written as an energy, or any log density of free variables."""
