"""Updates of a global: proximal steps, trust regions, and any optimiser of optax; one class each.

An update moves its global by a message, and may have a memory. The message itself is made in
`estimator`."""

from vijax.inference.update.base import Retraction as Retraction
from vijax.inference.update.base import Update as Update
from vijax.inference.update.base import retract as retract
from vijax.inference.update.descend import CHARTS as CHARTS
from vijax.inference.update.descend import Chart as Chart
from vijax.inference.update.descend import chart_of as chart_of
from vijax.inference.update.descend import descend as descend
from vijax.inference.update.descend import natural as natural
from vijax.inference.update.descend import natural_gradient as natural_gradient
from vijax.inference.update.floor import floored as floored
from vijax.inference.update.proximal import DIVERGENCES as DIVERGENCES
from vijax.inference.update.proximal import euclidean as euclidean
from vijax.inference.update.proximal import kl as kl
from vijax.inference.update.proximal import mirror as mirror
from vijax.inference.update.proximal import proximal as proximal
from vijax.inference.update.proximal import symmetric_kl as symmetric_kl
from vijax.inference.update.proximal import within as within
from vijax.inference.update.reflected import reflected as reflected
from vijax.inference.update.shrinkage import shrinkage as shrinkage
from vijax.inference.update.sites import block as block
from vijax.inference.update.sites import exact_mean as exact_mean
