"""E-steps: how a model's local variables are treated. Every one serves every message."""

from vijax.estep.amortised import Amortised as Amortised
from vijax.estep.amortised import amortised as amortised
from vijax.estep.base import EStep as EStep
from vijax.estep.base import Locals as Locals
from vijax.estep.base import MixedMembership as MixedMembership
from vijax.estep.conditionals import Conditionals as Conditionals
from vijax.estep.conditionals import Inferred as Inferred
from vijax.estep.conditionals import OfConditionals as OfConditionals
from vijax.estep.cvb0 import CVB0 as CVB0
from vijax.estep.cvb0 import cvb0 as cvb0
from vijax.estep.gibbs import Gibbs as Gibbs
from vijax.estep.gibbs import gibbs as gibbs
from vijax.estep.logistic_normal import GaussianLocals as GaussianLocals
from vijax.estep.logistic_normal import LogisticNormal as LogisticNormal
from vijax.estep.logistic_normal import LogisticNormalEStep as LogisticNormalEStep
from vijax.estep.mean_field import MeanField as MeanField
from vijax.estep.mean_field import mean_field as mean_field
from vijax.estep.proximal_gradient import ProximalGradient as ProximalGradient
from vijax.estep.proximal_gradient import proximal_gradient as proximal_gradient
from vijax.estep.unrolled import Structured as Structured
from vijax.estep.unrolled import structured as structured
