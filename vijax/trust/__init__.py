"""Checks of a fit on demand: leave-one-out scores, calibration by simulation, mixing of chains,
comparisons.

They may fit again, draw chains or call other libraries. The verdict of every fit, and the limits of
all verdicts, are in `verdict`; scores of held-out data in `evaluate`."""

from vijax.trust.calibration import Calibration as Calibration
from vijax.trust.calibration import Coverage as Coverage
from vijax.trust.calibration import coverage as coverage
from vijax.trust.calibration import sbc as sbc
from vijax.trust.calibration import symmetry as symmetry
from vijax.trust.calibration import uniformity as uniformity
from vijax.trust.chains import bulk_ess as bulk_ess
from vijax.trust.chains import rhat as rhat
from vijax.trust.check import Check as Check
from vijax.trust.check import Quantity as Quantity
from vijax.trust.check import Verdict as Verdict
from vijax.trust.check import check as check
from vijax.trust.compare import Compared as Compared
from vijax.trust.compare import Ranked as Ranked
from vijax.trust.compare import compare as compare
from vijax.trust.loo import Elpd as Elpd
from vijax.trust.loo import loo as loo
from vijax.trust.loo import waic as waic
from vijax.trust.priors import Influence as Influence
from vijax.trust.priors import PriorInfluence as PriorInfluence
from vijax.trust.priors import prior_influence as prior_influence
from vijax.trust.search_k import Searched as Searched
from vijax.trust.search_k import search_k as search_k
from vijax.verdict.psis import Smoothed as Smoothed
from vijax.verdict.psis import in_words as in_words
from vijax.verdict.psis import psis as psis
