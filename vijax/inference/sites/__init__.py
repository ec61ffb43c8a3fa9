"""Gaussian posteriors stored as *prior plus sites*, q(z) ∝ p(z) prod_n exp(a_n z_n - g_n z_n^2 / 2): O(N) numbers."""

from vijax.inference.sites.base import Factor, Prior, Sites
from vijax.inference.sites.feature_form import FeatureForm
from vijax.inference.sites.kernel_form import KernelForm
from vijax.inference.sites.posterior import Marginals, SitePosterior
from vijax.inference.sites.sparse_form import SparseFeatureForm

__all__ = ["Factor", "FeatureForm", "KernelForm", "Marginals", "Prior", "SitePosterior", "Sites", "SparseFeatureForm"]
