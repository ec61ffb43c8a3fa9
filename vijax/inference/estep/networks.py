"""E-steps of models with networks: amortised, and coordinate ascent that derivatives pass
through."""

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
      num_samples: draws of each row's latents. L of the paper.
      closed_kl: KL from the prior in closed form, with less noise. That is the paper's second
        estimator, eq. 7; the other is log p(x, z) - log q(z) at the draws, its first, eq. 6.
      refinements: ascent steps on each row's own latents. On their mean and log standard deviation,
        from where the network puts them (semi-amortised inference, Kim et al. 2018; the network
        learns from where they end, without derivatives of the steps).
      objective: an objective of the draws of each group together (`vijax.objective`):
        `importance_weighted()` is the bound of Burda, Grosse and Salakhutdinov 2016, `renyi(alpha)`
        the one of Li and Turner 2016. None is the evidence lower bound. `closed_kl` has no effect
        beside it.
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
    """Locals by a fixed number of sweeps of mean-field coordinate ascent on a conjugate surrogate,
    with the encoder's potentials in the place of the likelihood (Johnson et al. 2016, section 4);
    the likelihood is taken at draws.

    Args:
      num_sweeps: sweeps of coordinate ascent. All of them are differentiated. Locals that are not
        coupled need one, and get one.
      num_samples: draws of each row's latents.
      through_globals: True where the message of the globals also counts how they move the locals
        (Johnson et al. 2016, proposition 4.1, its second term). Without it the message is an
        expected statistic, which never leaves the domain and has no noise of draws; where the
        encoder has found the best locals, both have one mean.
      objective: an objective of the draws of each observation together (`vijax.objective`), the
        other locals found anew for each draw; None is the evidence lower bound.
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
