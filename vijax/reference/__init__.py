"""Reference methods: slow and exact, to judge the fast ones by."""

from vijax.reference.collapsed_gibbs import CollapsedGibbs as CollapsedGibbs
from vijax.reference.collapsed_gibbs import collapsed_gibbs_lda as collapsed_gibbs_lda
from vijax.reference.gaussian_bound import gaussian_bound as gaussian_bound
from vijax.reference.gaussian_bound import gaussian_by_lbfgs as gaussian_by_lbfgs
from vijax.reference.gibbs import Draws as Draws
from vijax.reference.gibbs import gibbs as gibbs
