"""The meaning of a k-hat, in words."""

from __future__ import annotations

import math

from vijax.checks import require

RELIABLE = 0.7
"""k-hat up to which importance weights are reliable (Vehtari et al. 2024)."""
_NOT_OF_MEANS = (
    "It does not say that means are wrong: fits with such a k-hat often have means and standard deviations that are "
    "right to a few hundredths of a posterior standard deviation."
)


def in_words(khat: float) -> str:
    """A sentence or two on a k-hat of `psis` or `loo`.

    The bounds are those of Vehtari, Simpson, Gelman, Yao and Gabry 2024, section 3.2.

    Raises:
      ValueError: NaN.

    >>> print(in_words(0.31))
    k-hat 0.31: good. Importance weights are reliable, and so is what they correct.
    """
    require(not math.isnan(khat), "khat", "a number, or inf", khat)
    if khat == math.inf:
        return (
            "k-hat inf: importance weights cannot be judged, for their tail has fewer than five distinct values. "
            "Take more draws, or judge by other means."
        )
    return f"k-hat {khat:.2f}: {_verdict(khat)}"


def _verdict(khat: float) -> str:
    if khat < 0.5:
        return "good. Importance weights are reliable, and so is what they correct."
    if khat <= RELIABLE:
        return "usable. Importance weights are reliable enough, but what they correct converges slowly."
    if khat <= 1:
        return f"importance weights are unreliable: do not correct by them. {_NOT_OF_MEANS}"
    return f"importance weights are useless: a few draws have all the weight, however many are drawn. {_NOT_OF_MEANS}"
