"""A run's page: blocks, charts, figures and tables."""
