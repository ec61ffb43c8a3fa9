"""Fits on many devices of one process: batches split over a mesh, padded; where state and batches lie."""

from vijax.scale.devices import mesh
from vijax.scale.steps import on_mesh

__all__ = ["mesh", "on_mesh"]
