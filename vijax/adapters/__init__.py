"""Models written for other libraries, as log densities of free variables.

A library's model comes in here, and its laws as ours. Fits that go out to ArviZ are in `fitting`,
readers of other libraries' tables and tensors in `data`."""

from vijax.adapters.discrete.joint_draws import sample_discrete as sample_discrete
from vijax.adapters.numpyro_model import discrete_probabilities as discrete_probabilities
from vijax.adapters.numpyro_model import from_numpyro as from_numpyro
from vijax.adapters.pymc_model import from_pymc as from_pymc
from vijax.adapters.pymc_model import to_inference_data as to_inference_data
from vijax.adapters.tfp_joint import from_tfp as from_tfp
