"""Updates of a global: proximal steps, trust regions, and any optimiser of optax; one class each."""

from vijax.inference.update.base import Update
from vijax.inference.update.chart import CHARTS, Chart, chart_of, natural
from vijax.inference.update.descend import descend, natural_gradient
from vijax.inference.update.proximal import DIVERGENCES, euclidean, kl, mirror, proximal, symmetric_kl
from vijax.inference.update.retraction import Retracted, retract
from vijax.inference.update.sites import block, exact_mean
from vijax.inference.update.within import within

__all__ = [
    "CHARTS",
    "DIVERGENCES",
    "Chart",
    "Retracted",
    "Update",
    "block",
    "chart_of",
    "descend",
    "euclidean",
    "exact_mean",
    "kl",
    "mirror",
    "natural",
    "natural_gradient",
    "proximal",
    "retract",
    "symmetric_kl",
    "within",
]
