"""The base class of guides: a guide is the density that free variables are fitted with, in free coordinates."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar

from jaxtyping import Array, Float

from vijax.contract.variables import Z as Z
from vijax.families import Family


class Guide(abc.ABC):
    """A family of densities of a vector.

    Attributes:
      sticks: True where its entropy has no closed form, so that gradients are those of "sticking the landing".
      is_correlated: True where it has the covariances of all pairs, so that a frame of its own has them too.
    """

    is_correlated: ClassVar[bool] = False
    sticks: ClassVar[bool] = False

    @abc.abstractmethod
    def at(self, mean: Float[Array, " D"], sd: float) -> Family:
        """The member of independent coordinates with this mean and standard deviation."""

    def over(self, places: Mapping[str, Sequence[int]]) -> Guide:
        """This guide for variables with these coordinates, given by name, where that matters."""
        del places
        return self

    def for_optimisers(self) -> Guide:
        """The same densities, with parameters that suit an optimiser."""
        return self
