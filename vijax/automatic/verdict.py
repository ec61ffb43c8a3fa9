"""Whether to trust a fit, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.report import Place

RIVAL = 5.0
"""Nats below the best within which another mode holds a share of the posterior."""


def verdict(q: Gaussian, khat: float, modes: Sequence[Place]) -> str:
    """A few sentences: how it ended, what the tails say, whether there were other modes.

    >>> verdict(Gaussian(np.zeros(1), np.eye(1), -3.0, Ended.CONVERGED), 0.2, [])
    'Converged. q is close to the posterior in shape (k-hat 0.20): means and sds can be used.'
    """
    said = [ENDS[q.ended].format(error=q.error)]
    if q.ended is Ended.UNBOUNDED:
        return said[0]
    said += [_of_tails(khat), *_of_rivals(modes)]
    if not q.is_full:
        said.append("Variables are independent under q: its sds are too small where they are correlated.")
    return " ".join(said)


ENDS = {
    Ended.CONVERGED: "Converged.",
    Ended.LIMITED: (
        "Stopped where the noise of its draws is all that is left: it moves the means by up to {error:.2f} sd. For "
        "less, raise max_gradients or max_draws."
    ),
    Ended.SPENT: "Not converged: it stopped at its limit of gradients. Raise max_gradients.",
    Ended.UNSOLVED: (
        "Not converged: Newton's steps on the fixed draws found no maximum. Variances may be without bound, or "
        "rounding is in the way: rescale the variables."
    ),
    Ended.TOO_FEW: (
        "Its fixed draws were too few: the bound on them is far above that on fresh ones, and its sds may be off by "
        "half. Raise num_draws, above the number of variables if need be."
    ),
    Ended.UNBOUNDED: (
        "Do not use this fit: the bound grows without limit as q gets wider. The density is improper. Give every "
        "variable a proper prior."
    ),
}


def _of_tails(khat: float) -> str:
    if khat < 0.5:
        return f"q is close to the posterior in shape (k-hat {khat:.2f}): means and sds can be used."
    if khat < 0.7:
        return f"q is near the posterior (k-hat {khat:.2f}): means and sds can be used; tail probabilities with care."
    if np.isfinite(khat):
        return (
            f"The posterior has tails or bends that a normal has not (k-hat {khat:.2f}). Means and sds are often still "
            "right to a tenth of an sd; do not rely on tails, and check what matters with a sampler."
        )
    return "How well q fits in the tails could not be judged (k-hat is infinite): check with a sampler."


def _of_rivals(modes: Sequence[Place]) -> list[str]:
    known = [mode.elbo for mode in modes if mode.elbo is not None]
    rivals = sum(elbo > max(known) - RIVAL for elbo in known) - 1 if known else 0
    if rivals <= 0:
        return []
    others = "another mode" if rivals == 1 else f"{rivals} other modes"
    return [f"The starts found {others} of similar weight: q describes one of them. See fit.modes."]
