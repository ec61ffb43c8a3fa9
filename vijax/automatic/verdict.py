"""Whether to trust a fit, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vijax.automatic.components import Mixture
from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.report import Place

RIVAL = 5.0
"""Nats below the best within which another mode holds a share of the posterior."""


def with_mixture(is_kept: bool, parts: int, more: float, error: float, words: str) -> str:
    """A verdict, with what a mixture of normals made of the bound.

    >>> with_mixture(True, 8, 0.2, 0.01, "Converged.")
    'Converged. Kept is a mixture of 8 normals: its bound is 0.20 ± 0.01 nats above that of one normal.'
    >>> with_mixture(False, 8, 0.0, 0.02, "Converged.")
    'Converged. A mixture of 8 normals was tried and not kept: its bound is not higher (by 0.00 ± 0.02 nats).'
    """
    gained = f"{more:.2f} ± {error:.2f} nats"
    if is_kept:
        return f"{words} Kept is a mixture of {parts} normals: its bound is {gained} above that of one normal."
    return f"{words} A mixture of {parts} normals was tried and not kept: its bound is not higher (by {gained})."


def verdict(q: Gaussian | Mixture, gap: float, khat: float, modes: Sequence[Place], zero: float = 0.0) -> str:
    """A few sentences: how it ended, how near q is to the posterior, whether there were other modes.

    Args:
      q: the fit.
      gap: a lower bound on KL(q || p), nats (`vijax.automatic.report.Report`).
      khat: tail of the importance ratios.
      modes: that the starts found.
      zero: share of the draws of q where the density is zero.

    >>> import numpy as np
    >>> verdict(Gaussian(np.zeros(1), np.eye(1), -3.0, Ended.CONVERGED), 0.01, 0.2, [])
    'Converged. q is close to the posterior (at least 0.01 nats from it, k-hat 0.20): means and sds can be used.'
    """
    said = [ENDS[q.ended].format(error=q.error)]
    if q.ended is Ended.UNBOUNDED:
        return said[0]
    if zero > 0:
        said = [_of_zeros(zero), *said]
        if zero > RARE:
            return said[0]
    said += [*_of_shape(gap, khat, q), *_of_rivals(modes)]
    if not q.is_full and gap < FAR:
        but = f", but along {q.num_directions} directions," if q.num_directions else ""
        said.append(f"Variables are independent under q{but}: its sds are too small where they are correlated.")
    return " ".join(said)


def is_usable(q: Gaussian | Mixture, zero: float) -> bool:
    """Whether a verdict does not begin with "Do not use this fit"."""
    return q.ended is not Ended.UNBOUNDED and zero <= RARE


ENDS = {
    Ended.CONVERGED: "Converged.",
    Ended.LIMITED: (
        "Stopped where the noise of its draws is all that is left: it moves the means by up to {error:.2f} sd. For "
        "less, raise max_gradients or max_draws."
    ),
    Ended.SPENT: "Not converged: it stopped at its limit of gradients. Raise max_gradients.",
    Ended.PASSES: "Not quite converged: the last pass over the data still changed q a little.",
    Ended.UNSOLVED: (
        "Not converged: Newton's steps on the fixed draws found no maximum. Variances may be without bound, or "
        "rounding is in the way: rescale the variables."
    ),
    Ended.TOO_FEW: (
        "Its fixed draws were too few: the bound on them is far above that on fresh ones, and its sds may be off by "
        "half. Raise num_draws, above the number of variables if need be."
    ),
    Ended.INTERRUPTED: "Stopped early, by Ctrl-C: this is the best q found so far.",
    Ended.UNBOUNDED: (
        "Do not use this fit: the bound grows without limit as q gets wider. The density is improper. Give every "
        "variable a proper prior."
    ),
}


RARE = 0.01
"""Share of zeros up to which the rest of q may serve all the same."""


def _of_zeros(share: float) -> str:
    """That the density is zero where q is not."""
    use = "Do not use this fit: the" if share > RARE else "The"
    remedy = "Declare the supports of the variables, vijax.free(support=...), so that no draw is outside."
    return (
        f"{use} density is zero, or no number, at {share:.1%} of the draws of q: the bound is minus infinity. {remedy}"
    )


CLOSE, FAR = 0.05, 0.3
"""Nats between q and the posterior: a mean that is off by d standard deviations costs d^2 / 2 of them."""


def _of_shape(gap: float, khat: float, q: Gaussian | Mixture) -> list[str]:
    """How far q is from the posterior by the importance ratios, and what their tail adds."""
    judged = f"(at least {max(gap, 0.0):.2f} nats from it, k-hat {khat:.2f})"
    if gap < CLOSE:
        said = [f"q is close to the posterior {judged}: means and sds can be used."]
    elif gap < FAR:
        typical = f"{np.sqrt(2 * gap / len(q.mean)):.2f} sd"
        worst = "some tenths of one at worst"
        said = [f"q is near the posterior {judged}: means are right to {typical} over all variables, to {worst}."]
    elif q.num_directions:
        remedy = "Write the density in other coordinates, or use a sampler."
        form = f"A normal with {q.num_directions} directions of dependence"
        said = [f"{form} does not describe the posterior {judged}: sds, and perhaps means, are wrong. {remedy}"]
    elif not q.is_full:
        remedy = "Means are often right; vijax.linear_response corrects the sds; a sampler would tell."
        said = [f"Independent normals do not describe the posterior {judged}: sds are too small. {remedy}"]
    else:
        remedy = "Write the density in other coordinates, or use a sampler."
        said = [f"The posterior has not the shape of q {judged}: sds, and perhaps means, are wrong. {remedy}"]
    if khat > LIGHT and gap < FAR:
        said.append("The tails of the posterior are heavier than those of q: do not rely on tail probabilities.")
    return said


LIGHT = 0.7
"""k-hat above which importance ratios say that tails are missed (Vehtari et al. 2024)."""


def _of_rivals(modes: Sequence[Place]) -> list[str]:
    known = [mode.elbo for mode in modes if mode.elbo is not None]
    rivals = sum(elbo > max(known) - RIVAL for elbo in known) - 1 if known else 0
    if rivals <= 0:
        return []
    others = "another mode" if rivals == 1 else f"{rivals} other modes"
    return [f"The starts found {others} of similar weight: q describes one of them. See fit.modes."]
