"""Kernels by name, from tinygp; any function k(X, X') -> (N, N') matrix is a kernel, tinygp's own
included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from jaxtyping import Array, Float

from vijax.contract.model import Hyper
from vijax.extras import require_extra

Kernel = Callable[[Any, Any], Float[Array, "a b"]]
KernelName = Literal["rbf", "matern12", "matern32", "matern52", "linear"]

_NAMES = {
    "rbf": "ExpSquared",
    "matern12": "Exp",
    "matern32": "Matern32",
    "matern52": "Matern52",
    "linear": "DotProduct",
}
_OF_A_DISTANCE = ("matern12", "matern32", "matern52")
"""Kernels that need Euclidean distances: with tinygp's default, absolute differences, they are not
kernels of several columns."""


def find_kernel(name: str) -> Callable[[Hyper], Kernel]:
    """hyper -> scale^2 k(x / length, x' / length); a `length` with one number for each column gives
    ARD.

    Sums and products are tinygp's: `lambda h: h["scale"]**2 * kernels.ExpSquared(h["length"]) +
    kernels.Constant(1.0)`.

    Raises:
      ValueError: an unknown name.
      ImportError: tinygp is not installed; the message holds the install command.
    """
    if name not in _NAMES:
        raise ValueError(
            f"kernel: expected a function k(X, X') or one of {sorted(_NAMES)}, got {name!r}."
        )
    kernels = require_extra("tinygp.kernels", "gp")
    distance = {"distance": kernels.distance.L2Distance()} if name in _OF_A_DISTANCE else {}

    def make_kernel(hyper: Hyper) -> Kernel:
        length, scale = hyper["length"], hyper["scale"]
        base = getattr(kernels, _NAMES[name])(**distance)
        return lambda a, b: scale**2 * base(a / length, b / length)

    return make_kernel
