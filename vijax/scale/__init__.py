"""Fits on many devices, of one process or of several: batches split over a mesh, padded; where
state and batches lie; how processes are joined and watched.

Where arrays lie, and what processes say to each other. The step does not know of it, but for a sum
over an axis."""

from vijax.scale.arrays import gathered
from vijax.scale.devices import mesh
from vijax.scale.processes import initialize
from vijax.scale.steps import on_mesh

__all__ = ["gathered", "initialize", "mesh", "on_mesh"]
