"""E-steps, the treatment of the local variables of a model. Each goes with every estimator.

An E-step finds the optimal locals of a batch, given the globals. The problems are defined in
`vijax.contract.estep`, and no E-step depends on a model.
"""

from vijax.contract.estep import EStep as EStep
from vijax.contract.estep import Locals as Locals
from vijax.contract.estep import MixedMembership as MixedMembership
from vijax.inference.estep.conditionals import Conditionals as Conditionals
from vijax.inference.estep.conditionals import InferredLocals as InferredLocals
from vijax.inference.estep.conditionals import OfConditionals as OfConditionals
from vijax.inference.estep.gibbs import Gibbs as Gibbs
from vijax.inference.estep.gibbs import gibbs as gibbs
from vijax.inference.estep.logistic_normal import GaussianLocals as GaussianLocals
from vijax.inference.estep.logistic_normal import LogisticNormal as LogisticNormal
from vijax.inference.estep.logistic_normal import LogisticNormalEStep as LogisticNormalEStep
from vijax.inference.estep.logistic_normal import ProximalGradient as ProximalGradient
from vijax.inference.estep.logistic_normal import proximal_gradient as proximal_gradient
from vijax.inference.estep.mixed_membership import CVB0 as CVB0
from vijax.inference.estep.mixed_membership import MeanField as MeanField
from vijax.inference.estep.mixed_membership import cvb0 as cvb0
from vijax.inference.estep.mixed_membership import mean_field as mean_field
from vijax.inference.estep.networks import Amortised as Amortised
from vijax.inference.estep.networks import Structured as Structured
from vijax.inference.estep.networks import amortised as amortised
from vijax.inference.estep.networks import structured as structured
