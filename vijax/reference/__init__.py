"""Reference methods: slow and exact, to judge the fast methods.

They share no code with the steps that they judge. No fit needs them; `trust` runs some on
demand."""

from vijax.reference.collapsed_gibbs import CollapsedGibbs as CollapsedGibbs
from vijax.reference.collapsed_gibbs import collapsed_gibbs_lda as collapsed_gibbs_lda
from vijax.reference.collapsed_mixture import CollapsedMixture as CollapsedMixture
from vijax.reference.collapsed_mixture import collapsed_gibbs_mixture as collapsed_gibbs_mixture
from vijax.reference.gaussian_bound import gaussian_bound as gaussian_bound
from vijax.reference.gaussian_bound import gaussian_by_lbfgs as gaussian_by_lbfgs
from vijax.reference.gibbs import Draws as Draws
from vijax.reference.gibbs import gibbs as gibbs
from vijax.reference.log_joint import log_joint as log_joint
from vijax.reference.mcmc import Chains as Chains
from vijax.reference.mcmc import metropolis_hastings as metropolis_hastings
from vijax.reference.mcmc import nuts as nuts
from vijax.reference.short_chains import Moved as Moved
from vijax.reference.short_chains import short_chains as short_chains
