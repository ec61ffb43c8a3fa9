"""Models written for other libraries, as log densities of free variables."""

from vijax.adapters.tfp_joint import from_tfp as from_tfp
