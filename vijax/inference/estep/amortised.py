"""The amortised E-step: a network gives each group's locals (Kingma and Welling 2014)."""

from __future__ import annotations

import dataclasses

from vijax.checks import require_integers
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
        require_integers(num_samples=self.num_samples)
        check_objective(self.objective)
        require_integers(0, refinements=self.refinements)


def amortised(
    num_samples: int = 1, closed_kl: bool = True, refinements: int = 0, objective: renyi | None = None
) -> Amortised:
    """Locals given by a network, and the bound by reparameterised draws of them.

    Args:
      num_samples: draws of each group's locals, L of the paper.
      closed_kl: KL(q || p) in closed form (the paper's second estimator, eq. 7), else log p(x, z) - log q(z) at the
        draws (its first estimator, eq. 6), which has more noise.
      refinements: ascent steps on each group's own mean and log standard deviation, from where the network puts them
        (semi-amortised inference, Kim et al. 2018; the network learns from where they end, without derivatives of the
        steps).
      objective: an objective of the draws of each group together (`vijax.objective`): `importance_weighted()` is the
        bound of Burda, Grosse and Salakhutdinov 2016, `renyi(alpha)` the one of Li and Turner 2016. None is the
        evidence lower bound. `closed_kl` has no effect beside it.

    Raises:
      ValueError: no draw, or an `objective` that is none.

    >>> amortised(num_samples=5)
    Amortised(num_samples=5, closed_kl=True, refinements=0, objective=None)
    """
    return Amortised(num_samples, closed_kl, refinements, objective)
