"""The amortised E-step: a network gives each group's locals (Kingma and Welling 2014)."""

from __future__ import annotations

import dataclasses

from vijax.arguments import Count, Size, checked
from vijax.contract.estep import EStep
from vijax.contract.objective import check_objective, renyi


@dataclasses.dataclass(frozen=True)
class Amortised(EStep):
    """The amortised E-step; see `amortised`."""

    num_samples: int = 1
    closed_kl: bool = True
    refinements: int = 0
    objective: renyi | None = None

    def __post_init__(self) -> None:
        check_objective(self.objective)


@checked
def amortised(
    num_samples: Size = 1, closed_kl: bool = True, refinements: Count = 0, objective: renyi | None = None
) -> Amortised:
    """Locals given by a network, and the bound by reparameterised draws of them.

    Args:
      num_samples: draws of each row's latents. L of the paper.
      closed_kl: KL from the prior in closed form, with less noise. That is the paper's second estimator, eq. 7; the
        other is log p(x, z) - log q(z) at the draws, its first, eq. 6.
      refinements: ascent steps on each row's own latents. On their mean and log standard deviation, from where the
        network puts them (semi-amortised inference, Kim et al. 2018; the network learns from where they end, without
        derivatives of the steps).
      objective: an objective of the draws of each group together (`vijax.objective`): `importance_weighted()` is the
        bound of Burda, Grosse and Salakhutdinov 2016, `renyi(alpha)` the one of Li and Turner 2016. None is the
        evidence lower bound. `closed_kl` has no effect beside it.

    Raises:
      ValueError: no draw, or an `objective` that is none.

    >>> amortised(num_samples=5)
    Amortised(num_samples=5, closed_kl=True, refinements=0, objective=None)
    """
    return Amortised(num_samples, closed_kl, refinements, objective)
