"""The parts of a form: units of coefficients, effects of a factor, steps of a monotone term."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.data.formulas.hilbert_gp import Kernel
from vijax.models.formulas.formula import name_at_level

COEFFICIENTS, SDS, CORRELATIONS, AUX = "_orthogonal.", "_sds.", "_correlations.", "_others."
STEPS, LENGTHS = "_steps.", "_lengths."
"""Prefixes of the names of the unknowns in units of size one. The name of a column, a factor, a
factor and the number of a block, a parameter, a monotone term, or a Gaussian process follows. The
number of a column is the coefficient of its part that the columns before it do not explain. Each is
a variable of its own, not an entry of a vector: the density may be the same with them in another
order."""


class Units(NamedTuple):
    """Location and scale of the coefficients: beta = location + size T b.

    Attributes:
      location: beta where b is zero, (p,).
      shift: minus the b at which beta is zero, (p,), if the location is not subtracted from the
          data; else zeros.
      turn: T, (p, p).
      size: the unit of the response.
      sizes: the unit of the predictor of each column, (p,); 1 for parameters with formulas.
    """

    location: tuple[float, ...]
    shift: tuple[float, ...]
    turn: tuple[tuple[float, ...], ...]
    size: float
    sizes: tuple[float, ...]

    def coefficients(self, b: Float[Array, " p"]) -> Float[Array, " p"]:
        """beta at b."""
        in_units = jnp.asarray(self.turn, b.dtype) @ b
        return jnp.asarray(self.location, b.dtype) + jnp.asarray(self.sizes, b.dtype) * in_units


class Block(NamedTuple):
    """Correlated effects: the name of their unknown, the index of the first one, their number."""

    unknown: str
    start: int
    size: int


class Effects(NamedTuple):
    """The effects of a factor.

    Attributes:
      name: name of the factor.
      labels: names of the effects.
      blocks: sizes of the blocks of correlated effects.
      sizes: root mean squares of their columns, by which the columns are divided.
      groups: number of groups.
      levels: for each effect the category of the response whose predictor it enters; None where
          there is one predictor.
      slots: the number of the predictor that each effect enters, where parameters have formulas.
      is_smooth: True for the coefficients of a smooth term: one group, that of all rows, whose
          effects for one predictor share an sd.
      kernel: of a Gaussian process, the variances of its effects by its length scales.
    """

    name: str
    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    sizes: tuple[float, ...]
    groups: int
    levels: tuple[str | None, ...]
    slots: tuple[int, ...]
    is_smooth: bool = False
    kernel: Kernel | None = None

    @property
    def num_sds(self) -> int:
        """Number of standard deviations."""
        return len(self.sd_names())

    def correlated_blocks(self) -> list[Block]:
        """The blocks of more than one effect."""
        starts = np.concatenate([[0], np.cumsum(self.blocks)]).tolist()
        unknowns = [f"{CORRELATIONS}{self.name}.{i}" for i in range(len(self.blocks))]
        blocks = map(Block, unknowns, starts, self.blocks)
        return [block for block in blocks if block.size > 1]

    def sd_names(self) -> list[str]:
        """Names of the standard deviations."""
        if self.kernel is not None:
            return [name_at_level(f"{self.name}_sigma", x) for x in dict.fromkeys(self.levels)]
        if self.is_smooth:
            return [name_at_level(f"sds({self.name})", x) for x in dict.fromkeys(self.levels)]
        pairs = zip(self.labels, self.levels, strict=True)
        return [name_at_level(f"{label}|{self.name}_sigma", level) for label, level in pairs]

    def length_names(self) -> list[str]:
        """Names of the length scales of a Gaussian process, of one predictor after another."""
        if self.kernel is None:
            return []
        names = self.kernel.length_names(self.name)
        levels = dict.fromkeys(self.levels)
        return [name_at_level(name, level) for level in levels for name in names]

    def smooth_sds(self, sds: Float[Array, " sds"], lengths: Any) -> Float[Array, " d"]:
        """The sd of each coefficient of a smooth term."""
        number = len(self.labels) // self.num_sds
        if self.kernel is None:
            return jnp.repeat(sds, number)
        kernel = self.kernel
        predictors = zip(sds, lengths.reshape(self.num_sds, kernel.num_lengths), strict=True)
        return jnp.concatenate(
            [sd * kernel.root_spectrum(scales, jnp) for sd, scales in predictors]
        )

    def correlation_name(self, first: int, second: int) -> str:
        """The name of the correlation of two effects."""
        return name_at_level(
            f"corr({self.labels[first]}, {self.labels[second]}|{self.name})", self.levels[first]
        )


NO_GROUPS = Effects("", (), (), (), 1, (), ())
"""The first factor of a formula with smooth terms alone: no effects."""


class Monotone(NamedTuple):
    """The steps of a monotone term: its coefficient b is their mean, and b D s_k the k-th of them.

    Attributes:
      label: name of its coefficient.
      size: D, the number of steps.
      centre: means of the indicators of the steps, (D,).
      slot: the number of the predictor that it enters.
    """

    label: str
    size: int
    centre: tuple[float, ...]
    slot: int

    @property
    def name(self) -> str:
        """The name of the shares s, as brms has it."""
        return f"simo_{self.label}"

    def share_names(self) -> list[str]:
        """Names of the shares, counted from 1."""
        return [f"{self.name}[{k + 1}]" for k in range(self.size)]

    def excess(self, b: Any, shares: Any) -> Any:
        """The coefficients of the indicators beside the column of b: b (D s - 1), (..., D)."""
        return b[..., None] * (self.size * shares - 1)
