"""Gaussian posteriors stored as *prior plus sites*, q(z) ∝ p(z) prod_n exp(a_n z_n - g_n z_n^2 /
2): O(N) numbers.

A posterior is stored here, with its moments and draws. How sites move is in `update`.
"""

from vijax.inference.sites.forms import Factor as Factor
from vijax.inference.sites.forms import FeatureForm as FeatureForm
from vijax.inference.sites.forms import KernelForm as KernelForm
from vijax.inference.sites.forms import Prior as Prior
from vijax.inference.sites.forms import Sites as Sites
from vijax.inference.sites.forms import SparseFeatureForm as SparseFeatureForm
from vijax.inference.sites.posterior import Marginals as Marginals
from vijax.inference.sites.posterior import SitePosterior as SitePosterior
