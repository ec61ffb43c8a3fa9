"""Models written for other libraries, as log densities of free variables."""

from vijax.adapters.numpyro_model import from_numpyro as from_numpyro
from vijax.adapters.tfp_joint import from_tfp as from_tfp
