"""Guides: the densities that free variables are fitted with, in free coordinates.

A guide names a family. `mean_field`, `full_rank` and `block` are exponential families, so that every estimator and
update of the engine serves them, natural gradients above all. `triangular` (the densities of `full_rank`, by mean and
triangle), `low_rank`, `mixture` and `flow` are not, and an optimiser moves them (`vijax.advi`).
"""

from vijax.inference.guides.base import Guide as Guide
from vijax.inference.guides.base import Z as Z
from vijax.inference.guides.blocks import block as block
from vijax.inference.guides.flows import flow as flow
from vijax.inference.guides.mixtures import mixture as mixture
from vijax.inference.guides.normals import full_rank as full_rank
from vijax.inference.guides.normals import low_rank as low_rank
from vijax.inference.guides.normals import mean_field as mean_field
from vijax.inference.guides.normals import triangular as triangular
