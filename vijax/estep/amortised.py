"""The amortised E-step: a network gives each group's locals (Kingma and Welling 2014)."""

from __future__ import annotations

import dataclasses

from vijax.checks import require_integers
from vijax.estep.base import EStep


@dataclasses.dataclass(frozen=True)
class Amortised(EStep):
    """See `amortised`."""

    num_samples: int = 1
    closed_kl: bool = True
    refinements: int = 0

    def __post_init__(self) -> None:
        require_integers(num_samples=self.num_samples)
        require_integers(0, refinements=self.refinements)


def amortised(num_samples: int = 1, closed_kl: bool = True, refinements: int = 0) -> Amortised:
    """Locals by a network, and the bound by reparameterised draws of them.

    Args:
      num_samples: draws of each group's locals, L of the paper.
      closed_kl: KL(q || p) in closed form (the paper's second estimator, eq. 7), else log p(x, z) - log q(z) at the
        draws (its first, eq. 6), which has more noise.
      refinements: ascent steps on each group's own mean and log standard deviation, from where the network puts them
        (semi-amortised inference, Kim et al. 2018; the network learns from where they end, without derivatives of the
        steps).

    Raises:
      ValueError: no draw.

    >>> amortised(num_samples=5)
    Amortised(num_samples=5, closed_kl=True, refinements=0)
    """
    return Amortised(num_samples, closed_kl, refinements)
