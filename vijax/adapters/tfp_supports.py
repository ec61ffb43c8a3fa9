"""The support of a TensorFlow Probability distribution: the image of all real numbers under its bijector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vijax import constrain
from vijax.adapters.found import above_of, below_of, interval_of
from vijax.constrain import Constraint
from vijax.constrain.scalars import HalfLine

FACTOR = "lower triangles of positive diagonal"
"""A set on the way to the positive definite matrices, which is no constraint of ours."""
Set = Constraint | str | None


def support(bijector: Any) -> Constraint | None:
    """The constraint whose set the bijector maps all real numbers onto; None where there is none.

    >>> import pytest
    >>> tfb = pytest.importorskip("vijax.adapters.tfp").tfp.bijectors
    >>> support(tfb.Chain([tfb.Shift(2.0), tfb.Scale(-3.0), tfb.Exp()]))
    below(high=2.0)
    """
    found = _image(bijector, constrain.real())
    return found if isinstance(found, Constraint) else None


def _image(bijector: Any, of: Set) -> Set:
    """The image of a set under a bijector; None where not known."""
    rule = _RULES.get(type(bijector).__name__)
    return None if rule is None or of is None else rule(bijector, of)


def _chain(chain: Any, of: Set) -> Set:
    for part in reversed(chain.bijectors):
        of = _image(part, of)
    return of


def _onto(made: Callable[[Any], Set], needed: Set = constrain.real()) -> Callable[[Any, Set], Set]:  # noqa: B008
    """The rule of a bijector for one set only."""
    return lambda bijector, of: made(bijector) if of == needed else None


def _moved(of: Set, shift: Any, scale: Any) -> Set:
    """shift + scale x."""
    scales = np.asarray(scale, float)
    if isinstance(of, constrain.real):
        return of if np.all(scales != 0) else None
    if not (np.all(scales > 0) or np.all(scales < 0)):
        return None
    down = bool(np.all(scales < 0))
    if isinstance(of, HalfLine):
        end = shift + scales * of.end
        return above_of(end) if (of.sign > 0) != down else below_of(end)
    if isinstance(of, constrain.interval):
        ends = shift + scales * of.low, shift + scales * of.high
        return interval_of(*(ends[::-1] if down else ends))
    return None


def _inverted(invert: Any, of: Set) -> Set:
    """Inverses of known bijectors: logarithms, logits, and `Ordered`, which maps to real numbers."""
    inner = invert.bijector
    if type(inner).__name__ == "Ordered":
        return constrain.ordered() if of == constrain.real() else None
    return constrain.real() if _image(inner, constrain.real()) == of else None


_RULES: dict[str, Callable[[Any, Set], Set]] = {
    "Identity": lambda bijector, of: of,
    "Chain": _chain,
    "_DefaultSampleBijector": lambda bijector, of: _image(bijector.bijector, of),
    "Invert": _inverted,
    "Shift": lambda bijector, of: _moved(of, np.asarray(bijector.shift, float), 1.0),
    "Scale": lambda bijector, of: _moved(
        of, 0.0, bijector.scale if bijector.scale is not None else np.exp(np.asarray(bijector.log_scale, float))
    ),
    "Exp": _onto(lambda bijector: constrain.positive()),
    "Softplus": _onto(lambda bijector: above_of(0.0 if bijector.low is None else bijector.low)),
    "Reciprocal": _onto(lambda bijector: constrain.positive(), constrain.positive()),
    "Sigmoid": _onto(lambda b: interval_of(0.0 if b.low is None else b.low, 1.0 if b.high is None else b.high)),
    "SoftmaxCentered": _onto(lambda bijector: constrain.simplex()),
    "IteratedSigmoidCentered": _onto(lambda bijector: constrain.simplex()),
    "Ascending": _onto(lambda bijector: constrain.ordered()),
    "CorrelationCholesky": _onto(lambda bijector: constrain.correlation_cholesky()),
    "FillScaleTriL": _onto(lambda bijector: FACTOR),
    "TransformDiagonal": _onto(lambda bijector: FACTOR, FACTOR),
    "CholeskyOuterProduct": _onto(lambda bijector: constrain.positive_definite(), FACTOR),
}
"""The rules, by the bijector's type."""
