"""Proximal-gradient stochastic variational inference (Khan et al. 2016)."""

from vijax.proximal.algorithm import pg_svi
from vijax.proximal.state import PGInfo, PGState

__all__ = ["PGInfo", "PGState", "pg_svi"]
