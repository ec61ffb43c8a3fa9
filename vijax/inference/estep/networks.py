"""E-steps of models with networks: amortised, and coordinate ascent that is differentiated."""

from __future__ import annotations

import dataclasses

from vijax.arguments import Count, Size, check_arguments
from vijax.checks import require
from vijax.contract.estep import EStep
from vijax.contract.objective import check_objective, renyi


@check_arguments
@dataclasses.dataclass(frozen=True)
class amortised(EStep):
    """Locals given by a network (Kingma and Welling 2014), and the bound by reparameterised draws
    of them.

    Args:
      num_samples: draws of the latents of each row, L of the paper.
      closed_kl: True for the KL from the prior in closed form, with less noise: the paper's second
        estimator, eq. 7. False for log p(x, z) - log q(z) at the draws, its first estimator, eq. 6.
      refinements: ascent steps on the latents of each row, in mean and log standard deviation, from
        the output of the network (semi-amortised inference, Kim et al. 2018). The network learns
        from the end of the steps, without derivatives of the steps.
      objective: an objective of the draws of each group together (`vijax.objective`):
        `importance_weighted()` is the bound of Burda, Grosse and Salakhutdinov 2016, `renyi(alpha)`
        the bound of Li and Turner 2016. With an objective `closed_kl` has no effect. None is the
        evidence lower bound.
    """

    num_samples: Size = 1
    closed_kl: bool = True
    refinements: Count = 0
    objective: renyi | None = None

    def __post_init__(self) -> None:
        check_objective(self.objective)


@check_arguments
@dataclasses.dataclass(frozen=True)
class structured(EStep):
    """Locals by a fixed number of sweeps of mean-field coordinate ascent on a conjugate surrogate
    (Johnson et al. 2016, section 4).

    The surrogate has potentials from the encoder instead of the likelihood, which is evaluated at
    draws.

    Args:
      num_sweeps: sweeps of coordinate ascent. All of them are differentiated. Locals that are not
        coupled need one, and get one.
      num_samples: draws of the latents of each row.
      through_globals: True if the message of the globals has the derivative through the locals too
        (the second term of Johnson et al. 2016, proposition 4.1). Without it the message is an
        expected statistic, which never leaves the domain and has no noise of draws. With the best
        locals both have the same mean.
      objective: an objective of the draws of each observation together (`vijax.objective`); the
        other locals are computed for each draw. None is the evidence lower bound.
    """

    num_sweeps: Size = 10
    num_samples: Size = 1
    through_globals: bool = False
    objective: renyi | None = None

    def __post_init__(self) -> None:
        check_objective(self.objective)
        through = self.through_globals
        require(isinstance(through, bool), "through_globals", "True or False", repr(through))


Amortised = amortised
Structured = structured
