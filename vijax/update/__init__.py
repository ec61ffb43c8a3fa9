"""How a global moves: proximal steps, trust regions, and any optimiser of optax; one update a class."""

from vijax.update.base import Update
from vijax.update.chart import CHARTS, Chart, chart_of, natural
from vijax.update.descend import descend, natural_gradient
from vijax.update.proximal import DIVERGENCES, euclidean, kl, mirror, proximal, symmetric_kl
from vijax.update.retraction import Retracted, retract
from vijax.update.sites import block, exact_mean
from vijax.update.within import within

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
