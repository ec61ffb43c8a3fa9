"""Integrals over the effects of groups: of one grouping factor, of several, and of several under a normal law."""
