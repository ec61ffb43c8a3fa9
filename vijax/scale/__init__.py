"""Fits on many devices, of one process or of several.

Where arrays lie, how batches are split and padded over a mesh, and how processes are joined, agree
and are watched. The step itself knows only of a sum over an axis."""

from vijax.scale.arrays import gathered
from vijax.scale.devices import mesh
from vijax.scale.processes import initialize
from vijax.scale.steps import on_mesh

__all__ = ["gathered", "initialize", "mesh", "on_mesh"]
